"""Cases, their worlds, and the comparison."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest

from nova_sched.lab.case import BrokenCase, Case, load, parse
from nova_sched.lab.compare import compare
from nova_sched.lab.replay import Translator, check, replay
from nova_sched.testing.cases import translator

GOLDEN = Path(__file__).parents[2] / "golden" / "cases"


def golden(name: str) -> dict[str, Any]:
    """The decoded file whose name begins so."""
    (path,) = GOLDEN.glob(f"*/{name}*.json")
    data: dict[str, Any] = orjson.loads(path.read_bytes())
    return data


@pytest.fixture(scope="module")
def edges() -> Translator:
    return translator()


def replayed(data: dict[str, Any], edges: Translator) -> list[dict[str, Any]]:
    return replay(parse(data), edges)


def results(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = golden(name)["expected"]["results"]
    return found


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"input": {"hosts": []}}', '{"input": {"hosts": [], "now": "noon", "requests": []}}'],
)
def test_a_file_that_is_no_case_is_refused_by_name(text: str, tmp_path: Path) -> None:
    """The message has the path and what is wrong."""
    path = tmp_path / "odd.json"
    path.write_text(text)
    with pytest.raises(BrokenCase, match=r"odd\.json"):
        load(path)


def test_an_answer_equals_itself_in_another_spelling() -> None:
    """Integers or floats, order of keys, order of group hosts and pools, tuples or lists: all the same."""
    wanted = results("242")
    spelled = deepcopy(wanted)
    for cast in spelled[0]["casts"]:
        cast["filter_properties"]["group_hosts"].reverse()
        cast["filter_properties"] = dict(reversed(cast["filter_properties"].items()))
    for state in spelled[0]["host_states"].values():
        state.update({key: float(value) for key, value in state.items()})
    spelled[0]["reasons"] = ["no host"]
    assert compare(wanted, spelled) == []


@pytest.mark.parametrize(
    ("where", "spoil"),
    [
        ("outcome", lambda r: r.update(outcome="ok")),
        ("filter_trace", lambda r: r["rounds"][0]["filter_trace"][0][1].pop()),
        ("weighed", lambda r: r["rounds"][0]["weighed"][0].update(weight=0.5)),
        ("chosen", lambda r: r["rounds"][0].update(chosen=["nobody", "nobody.lab"])),
        ("limits", lambda r: r["rounds"][0]["limits"].update(memory_mb=1)),
        ("after", lambda r: r["rounds"][0]["after"].update(free_ram_mb=None)),
        ("rounds", lambda r: r["rounds"].pop()),
        ("casts", lambda r: r["casts"][0].update(launch_index=7)),
        ("retry", lambda r: r["casts"][0]["filter_properties"].pop("retry")),
        ("instance_errors", lambda r: r["instance_errors"].pop()),
        ("notifications", lambda r: r["notifications"].reverse()),
        ("host_states", lambda r: r["host_states"].popitem()),
        ("reasons", lambda r: r.update(reasons=[])),
    ],
)
def test_every_difference_that_matters_is_found(where: str, spoil: Any) -> None:
    """Each compared member, spoilt, is named by its path."""
    wanted = results("242")
    wrong = deepcopy(wanted)
    wrong[0]["reasons"] = ["no host"]
    spoil(wrong[0])
    assert any(where in difference.where for difference in compare(wanted, wrong))


def test_another_one_of_the_choices_is_as_good() -> None:
    """Equals may be chosen in any order; what follows from the choice is not compared."""
    wanted = results("010")
    other = deepcopy(wanted)
    one = other[0]["rounds"][0]
    assert len(one["choices"]) > 1
    one["chosen"] = one["choices"][1]
    one["after"] = one["limits"] = {}
    other[0]["casts"] = other[0]["host_states"] = {}
    assert compare(wanted, other) == []
    one["chosen"] = ["nobody", "nobody.lab"]
    assert compare(wanted, other) != []


def test_a_reason_must_contain_what_is_promised_whatever_its_quotes() -> None:
    """Quotes and backslashes are stripped on both sides."""
    wanted = [{"outcome": "no_valid_host", "reason_contains": ["JsonFilter", '"%%"']}]
    assert compare(wanted, [{"outcome": "no_valid_host", "reasons": ["JsonFilter: operator '%%'"]}]) == []
    assert compare(wanted, [{"outcome": "no_valid_host", "reasons": ["operator %%"]}]) != []


def test_a_result_accepted_as_well_is_no_mismatch(edges: Translator) -> None:
    """``also_accepted`` holds answers as good as ``expected``."""
    data = golden("307")
    assert check(parse(data), edges) == []
    wrong = deepcopy(data)
    wrong["expected"]["results"][0]["outcome"] = "no_valid_host"
    assert check(parse(wrong), edges) != []
    wrong["also_accepted"].append({"why": "as it was", "results": data["expected"]["results"]})
    assert check(parse(wrong), edges) == []


def second_state(data: dict[str, Any], edges: Translator, host: str) -> dict[str, Any]:
    state: dict[str, Any] = replayed(data, edges)[1]["host_states"][host]
    return state


def with_row(data: dict[str, Any], **columns: Any) -> dict[str, Any]:
    """Case 306 with other columns in the update of alder before its second request."""
    changed = deepcopy(data)
    changed["input"]["requests"][1]["update_hosts"][0].update(columns)
    return changed


@pytest.mark.parametrize(
    ("updated_at", "before_second"),
    [
        ("2014-10-16T12:00:10.000000", 7900),
        ("2014-10-16T11:59:59.000000", 10000 - 2048),
        (None, 7900 - 2048),
    ],
    ids=["newer", "older", "never"],
)
def test_a_row_and_a_claim_meet_by_their_times(
    updated_at: str | None, before_second: int, edges: Translator
) -> None:
    """A newer row contains the claim, an older one is ignored, one without a time is used plus the claim."""
    data = with_row(golden("306"), updated_at=updated_at)
    seconds = replayed(data, edges)[1]
    taken = sum(cast["host"] == "alder" for cast in seconds["casts"]) * 2048
    assert seconds["host_states"]["alder/alder.lab"]["free_ram_mb"] == before_second - taken


def test_a_fresh_scheduler_per_request_knows_no_claims(edges: Translator) -> None:
    """Without shared_state each request begins with the rows."""
    data = golden("305")
    data["input"]["shared_state"] = False
    assert [result["casts"][0]["host"] for result in replayed(data, edges)] == ["alder"] * 3


def test_devices_of_a_request_are_claimed_for_the_next(edges: Translator) -> None:
    """PCI devices and NUMA cells of earlier casts are taken when the next request comes."""
    data = golden("285")
    data["input"]["shared_state"] = True
    data["input"]["requests"].append(deepcopy(data["input"]["requests"][0]))
    first, second = replayed(data, edges)
    assert len(first["casts"]) == 4
    assert second["outcome"] == "no_valid_host"
    cells = golden("293")
    cells["input"]["shared_state"] = True
    cells["input"]["requests"].append(deepcopy(cells["input"]["requests"][0]))
    assert replayed(cells, edges)[1]["outcome"] == "no_valid_host"


def test_a_configuration_that_cannot_start_is_an_outcome(edges: Translator) -> None:
    """The reason names the option; every request of the case gets that outcome."""
    data = golden("295")
    (result,) = replayed(data, edges)
    assert result["outcome"] == "startup_failed"
    assert "NoSuchFilter" in result["reasons"][0]


def test_replaying_twice_gives_the_same(edges: Translator) -> None:
    """A replay depends on its file only."""
    case: Case = parse(golden("099"))
    assert replay(case, edges) == replay(case, edges)
