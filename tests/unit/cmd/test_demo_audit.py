"""The demo's verdict sees what is wrong, whichever source says so."""

from __future__ import annotations

from typing import Any

import pytest

from nova_sched.cmd.demo_audit import audit
from nova_sched.cmd.demo_story import Guest


class Told:
    """A story with two guests on two hosts, one rescheduled, one refused: all as it should be."""

    def __init__(self) -> None:
        self.guests = {
            "a": Guest("a", "vm", "active", "active", "alder", 1, None, ["alder"]),
            "b": Guest("b", "stumbling", "active", "active", "birch", 2, None, ["alder", "birch"]),
            "c": Guest("c", "huge", "error", "error", None, 1, "no room", [], {"m1"}),
        }
        self.hosts = [_host("alder"), _host("birch")]
        self.phases = {"start": 4, "end": 4}

    def reported(self) -> int:
        return sum(host["running_vms"] for host in self.hosts)


def _host(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "host": name,
        "vcpus": 4,
        "memory_mb": 4096,
        "local_gb": 40,
        "vcpus_used": 1,
        "memory_mb_used": 1024,
        "local_gb_used": 10,
        "used_vcpus": 1,
        "used_memory_mb": 1024,
        "used_disk_mb": 10240,
        "claimed_vcpus": 0,
        "claimed_memory_mb": 0,
        "claimed_disk_mb": 0,
        "running_vms": 1,
        **changes,
    }


def test_good_story_is_good():
    """And its summary has the promised form."""
    verdict = audit(Told())
    assert verdict.good
    assert str(verdict) == "summary: requested=3 active=2 error=1 lost=0 oversubscribed=0"


def _lost(story: Told) -> None:
    story.guests["a"].state = "building"


def _crowded(story: Told) -> None:
    story.hosts[0] = _host("alder", memory_mb_used=5000)


def _claimed_too_much(story: Told) -> None:
    story.hosts[1] = _host("birch", claimed_vcpus=16)


def _silent(story: Told) -> None:
    story.guests["a"].scheduled = []


def _elsewhere(story: Told) -> None:
    story.guests["a"].scheduled = ["birch"]


def _told_twice(story: Told) -> None:
    story.guests["c"].error_events.add("m2")


def _no_fault(story: Told) -> None:
    story.guests["c"].fault = None


def _wrong_end(story: Told) -> None:
    story.guests["a"].state = "error"


def _ghost(story: Told) -> None:
    story.hosts[0] = _host("alder", running_vms=2)


def _no_end(story: Told) -> None:
    story.phases["end"] = 3


def _same_host_again(story: Told) -> None:
    story.guests["b"].scheduled = ["birch", "birch"]


@pytest.mark.parametrize(
    "spoil",
    [
        _lost,
        _crowded,
        _claimed_too_much,
        _silent,
        _elsewhere,
        _told_twice,
        _no_fault,
        _wrong_end,
        _ghost,
        _no_end,
        _same_host_again,
    ],
)
def test_whatever_is_wrong_is_seen(spoil):
    """Any source that disagrees makes the exit status 1."""
    story = Told()
    spoil(story)
    assert not audit(story).good


def test_lost_and_oversubscribed_are_counted():
    """Not assumed to be 0."""
    story = Told()
    _lost(story)
    _crowded(story)
    assert str(audit(story)).endswith("lost=1 oversubscribed=1")
