"""Crash points: nothing without the variable, one line of the plan per process with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from nova_sched.bootstrap.crash import POINTS, VARIABLE, crash_point
from nova_sched.rpc.bus import crash as bus_crash
from nova_sched.service import ports


def test_without_the_variable_nothing_happens_at_any_point() -> None:
    """The daemon of every day."""
    point = crash_point({})
    assert [point(name) for name in sorted(POINTS)] == [None] * len(POINTS)


def test_the_points_are_those_of_the_loop_and_of_the_bus() -> None:
    """A plan may name each of them."""
    assert set(ports.CRASH_POINTS) | set(bus_crash.POINTS) == POINTS


def test_each_process_takes_one_line_and_the_next_ones_live(tmp_path: Path) -> None:
    """The plan is worked off in its order; a process without a line lives."""
    plan = tmp_path / "plan"
    plan.write_text("after_commit 2\nbefore_ack 1\n")
    environment = {VARIABLE: str(plan)}
    crash_point(environment)
    assert plan.read_text() == "before_ack 1\n"
    crash_point(environment)
    assert crash_point(environment) is ports.no_crash


def test_a_process_dies_at_its_arrival_and_says_so(tmp_path: Path) -> None:
    """SIGKILL at the second arrival at the point, none at others."""
    plan = tmp_path / "plan"
    plan.write_text("after_commit 2\n")
    pid = os.fork()
    if not pid:
        point = crash_point({VARIABLE: str(plan)})
        for name in ("after_commit", "before_ack", "after_commit"):
            point(name)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert (tmp_path / "plan.done").read_text() == f"after_commit {pid}\n"


def test_an_unknown_point_is_refused(tmp_path: Path) -> None:
    """A plan that could never be carried out would prove nothing."""
    plan = tmp_path / "plan"
    plan.write_text("after_lunch 1\n")
    with pytest.raises(ValueError, match="after_lunch is no crash point"):
        crash_point({VARIABLE: str(plan)})
