"""Files that are no case are told in one sentence, and nothing else is raised for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nova_sched.lab.case import BrokenCase, load, parse
from nova_sched.lab.compare import compare
from nova_sched.lab.world import World

HOST = {
    "host": "h1",
    "hypervisor_hostname": "n1",
    "service": {"host": "h1", "updated_at": "2014-10-16T12:00:00"},
}


def a_case(**given):
    """The smallest case, with some members of its input replaced."""
    return {"input": {"hosts": [HOST], "now": "2014-10-16T12:00:00", "requests": [], **given}}


def written(folder: Path, data) -> Path:
    """A file with this content."""
    path = folder / "case.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{", "not JSON"),
        (5, "the file: expected an object, found 5"),
        ({}, "input is missing"),
        ({"input": []}, "input: expected an object, found []"),
        (a_case(hosts={"h1": {}}), "input.hosts: expected a list"),
        (a_case(hosts=[HOST, "h2"]), "input.hosts[1]: expected an object, found 'h2'"),
        (a_case(hosts=[{**HOST, "service": 7}]), "input.hosts[0].service: expected an object, found 7"),
        (a_case(hosts=[{"host": "h1"}]), "input.hosts[0].hypervisor_hostname is missing"),
        (
            a_case(hosts=[{**HOST, "pci_stats": [{}]}]),
            "pci_stats: expected text or number or boolean or null",
        ),
        (a_case(aggregates=[{"name": "a", "hosts": "h1"}]), "input.aggregates[0].hosts: expected a list"),
        (a_case(now=None), "input.now: expected text, found None"),
        (a_case(now="noon"), "noon"),
        (a_case(requests=[{"method": "run_instance"}]), "input.requests[0].request_spec is missing"),
        ({**a_case(), "expected": {}}, "expected.results is missing"),
        (
            {**a_case(), "expected": {"results": [{"outcome": "ok", "rounds": [None]}]}},
            "rounds[0]: expected an object",
        ),
    ],
)
def test_a_file_that_is_no_case_names_the_member(tmp_path, data, said):
    """One sentence with path, file and what was expected."""
    path = written(tmp_path, data)
    with pytest.raises(BrokenCase) as caught:
        load(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_smallest_case_is_one(tmp_path):
    """Everything else has a default."""
    assert load(written(tmp_path, a_case())).requests == ()


def test_pools_are_the_same_in_any_order_of_pools_and_keys():
    """Neither says anything."""
    one = {"count": 2, "product_id": "1", "vendor_id": "9"}
    other = {"count": 2, "product_id": "2", "vendor_id": "8"}
    expected = [{"outcome": "ok", "rounds": [{"after": {"pci_pools": [one, other]}}]}]
    turned = [dict(reversed(pool.items())) for pool in (other, one)]
    assert compare(expected, [{"outcome": "ok", "rounds": [{"after": {"pci_pools": turned}}]}]) == []


def test_a_row_with_a_broken_time_counts_as_never_updated():
    """It costs that row nothing else."""
    case = parse(a_case(hosts=[{**HOST, "updated_at": "yesterday"}]))
    assert list(World(case).host_states()) == ["h1/n1"]
