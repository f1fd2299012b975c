"""The conformance kit, run as an author of an agent runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nova_sched.testing.agent.bed import AgentBed

ROOT = Path(__file__).parents[2]


OPTION = ("-p", "nova_sched.testing.agent.option", "--agent")


def run_kit(*options: str) -> subprocess.CompletedProcess[str]:
    """``pytest --pyargs nova_sched.testing.agent`` in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--pyargs",
        "nova_sched.testing.agent",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.run(
        [*command, *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "options",
    [(), (*OPTION, "tests.functional.example_agent:make_agent")],
    ids=["reference agent", "small agent of the documentation"],
)
def test_shipped_agents_keep_the_protocol(options):
    """The reference agent, and the one in forty lines that authors start from."""
    done = run_kit(*options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


def test_the_kit_notices_an_agent_that_does_nothing():
    """A kit that nothing fails would prove nothing."""
    done = run_kit(*OPTION, "tests.functional.test_agent_conformance:Silent", "-x", "--timeout", "60")
    assert done.returncode == 1
    assert "the agent never sent" in done.stdout


class Silent:
    """An agent that neither reports nor builds."""

    def __init__(self, bed: AgentBed) -> None:
        bed.reports.patience_seconds = 0.5

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""
