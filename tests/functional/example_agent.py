"""The small agent of the documentation, as the conformance kit wants it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from nova_sched.settings import AgentSettings
from nova_sched.testing.agent.bed import AgentBed

EXAMPLE = Path(__file__).parents[2] / "examples" / "small_agent.py"


def make_agent(bed: AgentBed) -> Any:
    """An agent on the example's hypervisor."""
    spec = importlib.util.spec_from_file_location("small_agent", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example.make_agent(
        bed.transport,
        bed.host,
        bed.node,
        example.DictionaryHypervisor(bed.must_fail),
        settings=AgentSettings(report_interval_seconds=bed.interval_seconds, state_path=str(bed.state_path)),
    )
