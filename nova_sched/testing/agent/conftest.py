"""Fixtures of the conformance kit."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nova_sched.testing.agent.bed import AgentBed, AgentUnderTest

REFERENCE = "nova_sched.testing.agent.reference:make_agent"
Factory = Callable[[AgentBed], AgentUnderTest]


@pytest.fixture(scope="session")
def make_agent(request: pytest.FixtureRequest) -> Factory:
    """The factory that was asked for."""
    named = request.config.getoption("--agent", None) or REFERENCE
    module, _, name = named.partition(":")
    factory: Factory = getattr(importlib.import_module(module), name)
    return factory


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[AgentBed]:
    """A bus with the scheduler's side listening; every message of the test has to fit the published schemas."""
    made = AgentBed(tmp_path)
    made.start()
    yield made
    made.stop()
    assert made.reports.faults + made.scheduler.faults == []


@pytest.fixture
def agent(bed: AgentBed, make_agent: Factory) -> Iterator[AgentUnderTest]:
    """The agent under test, running."""
    made = make_agent(bed)
    made.start()
    yield made
    made.stop()
