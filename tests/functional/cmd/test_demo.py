"""make demo, on embedded parts: plain lines in a pipe, the summary last, an exit status that means it."""

from __future__ import annotations

import subprocess
import sys


def test_demo_ends_with_a_true_summary():
    """Twenty-eight asked for; all but the one that fits nowhere run, one of them after a reschedule."""
    ran = subprocess.run(
        [sys.executable, "-m", "nova_sched.cmd.demo"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[-1] == "summary: requested=28 active=27 error=1 lost=0 oversubscribed=0"
    assert any("stumbling is scheduled on" in line and "(attempt 2)" in line for line in lines)
    assert any("huge gets no host" in line for line in lines)
    assert "\x1b" not in ran.stdout
    assert ran.stderr == ""
