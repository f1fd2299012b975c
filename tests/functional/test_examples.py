"""The examples of the documentation decide as their texts say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nova_sched.plugins.nova import imports
from nova_sched.plugins.registry import load_driver
from nova_sched.testing import builders
from nova_sched.testing.deciding import decide, hosts_chosen, passing, settings

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    before = set(sys.modules)
    yield
    imports.remove()
    for name in set(sys.modules) - before:
        if name.split(".")[0] in {"rack_filter", "spare_weigher", "stacking_driver", "nova_style_filter"}:
            del sys.modules[name]


def test_a_filter_of_a_user_loads_by_its_path_and_says_why():
    """A full rack takes only guests that ask for it by hint."""
    rows = [builders.host("alder"), builders.host("birch")]
    full = builders.aggregate("r7", ["birch"], {"rack": "r7", "rack_full": "yes"})
    enabled = settings(["rack_filter.RackFilter"], available=["rack_filter.RackFilter"])
    plain = decide(rows, builders.request(), enabled, aggregates=[full])
    assert hosts_chosen(plain) == ["alder"]
    asked = decide(rows, builders.request(hints={"rack": "r7"}), enabled, aggregates=[full])
    assert asked.explanation.rounds[0].steps[0].hosts_out == 2
    refused = decide(rows[1:], builders.request(), enabled, aggregates=[full])
    assert "in a full rack" in refused.refusals[0].reason


def test_a_weigher_of_a_user_loads_by_its_path():
    """The host that keeps the most physical cores wins, with the documented factor."""
    rows = [builders.host("alder", vcpus_used=9), builders.host("birch", vcpus_used=3)]
    decision = decide(rows, builders.request(), settings(weighers=["spare_weigher.SpareCoresWeigher"]))
    assert hosts_chosen(decision) == ["birch"]
    assert decision.placements[0].weight == 2.0


@pytest.mark.parametrize(("project", "host"), [("batch", "birch"), ("web", "alder")])
def test_a_driver_of_a_user_loads_by_its_path(project: str, host: str):
    """One project is stacked on the fuller host, the others are spread."""
    import numpy as np

    from nova_sched.model.facts import NO_FACTS

    driver = load_driver(settings(driver="stacking_driver.StackBatchDriver"))
    table = builders.table(builders.host("alder"), builders.host("birch", free_ram_mb=9000))
    request = builders.request(project_id=project)
    decision = driver.decide(request, table.overlay(), NO_FACTS, np.random.default_rng(1))
    assert hosts_chosen(decision) == [host]


def test_a_filter_in_novas_form_runs_unedited():
    """Only hosts with an even number of guests take the flavor that asks for it."""
    rows = [
        builders.host("alder", stats={"num_instances": "3"}),
        builders.host("birch", stats={"num_instances": "4"}),
    ]
    asks = builders.request(extra_specs={"parity": "even"})
    name = "nova_style_filter.EvenHostsFilter"
    enabled = settings([name], available=[name], nova_imports=True)
    assert hosts_chosen(decide(rows, asks, enabled)) == ["birch"]
    assert passing("AllHostsFilter", rows, asks) == ["alder", "birch"]
