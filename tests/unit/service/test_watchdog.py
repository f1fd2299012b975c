"""A plugin that hangs ends its worker: named, with its stack, with a status that is not zero."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap

import pytest

from nova_sched.plugins.guard import PluginGuard
from nova_sched.service.watchdog import EXIT_STATUS, Watchdog
from nova_sched.testing.fakes import ManualClock

HANGING = """
    import logging, re, sys, time
    from nova_sched.plugins.guard import PluginGuard
    from nova_sched.service.watchdog import Watchdog

    logging.basicConfig(format="%(message)s")
    guard = PluginGuard()
    watchdog = Watchdog(lambda: guard, timeout_seconds=0.4, grace_seconds=0.6)
    watchdog.start()

    def quick():
        time.sleep(0.05)

    def hang():
        {body}

    for _ in range(12):
        guard.call("QuickFilter", quick)
    guard.call("HangingFilter", hang)
    print("came back")
"""


def hanging(body: str) -> subprocess.CompletedProcess[str]:
    """A process whose plugin does ``body``."""
    code = textwrap.dedent(HANGING).format(body=body)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_plugin_that_waits_for_ever_is_named_and_its_worker_ends():
    done = hanging("time.sleep(60)")
    assert done.returncode == EXIT_STATUS
    assert "plugin HangingFilter has not come back" in done.stderr
    assert "in hang" in done.stderr
    assert "QuickFilter has not" not in done.stderr
    assert "came back" not in done.stdout


def test_a_plugin_that_hangs_inside_of_c_code_ends_its_worker_too():
    done = hanging("re.match('(a*)*b', 'a' * 40)")
    assert done.returncode != 0
    assert "in hang" in done.stderr
    assert "came back" not in done.stdout


def test_a_plugin_that_comes_back_in_time_is_left_alone():
    done = hanging("time.sleep(0.2); watchdog.stop(); time.sleep(0.5)")
    assert done.returncode == 0
    assert "came back" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("same_call", [True, False])
def test_many_short_calls_of_one_plugin_are_not_one_long_call(same_call):
    time, guard, left = ManualClock(), PluginGuard(), []
    watchdog = Watchdog(lambda: guard, 5.0, clock=time.clock, leave=left.append, stacks=_Stacks())
    guard.current, guard.calls = "SlowFilter", 1
    for _ in range(7):
        watchdog.look()
        time.advance(1.0)
        guard.calls += 0 if same_call else 1
    assert left == ([EXIT_STATUS] if same_call else [])


def test_without_anything_to_watch_nothing_happens():
    left: list[int] = []
    watchdog = Watchdog(lambda: None, 0.0, leave=left.append)
    watchdog.look()
    watchdog.look()
    watchdog.stop()
    assert left == []


class _Stacks(io.StringIO):
    """A text stream that faulthandler may write to."""

    def fileno(self) -> int:
        return sys.__stderr__.fileno()
