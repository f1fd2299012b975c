"""Rules of claims that were broken once."""

from __future__ import annotations

from dataclasses import replace

from nova_sched.db.room import Sums
from nova_sched.db.rules import Accept, ClaimRow, InstanceRow, judge
from nova_sched.model.states import ClaimState
from tests.integration.db.worlds import failed, request, uuid_of


def _claim(uuid: str, kind: str = "build", attempt: int = 1) -> ClaimRow:
    return ClaimRow(uuid, attempt, uuid_of(1), 7, kind, ClaimState.CLAIMED, Sums(2, 2048, 0, 1, 0))


def test_an_undeliverable_cast_ends_its_own_claim_and_no_other_one_on_that_host() -> None:
    """A destination reserved for the same guest on the same host was ended instead, and the build's claim lived on in
    an instance that was in ERROR."""
    move, build = _claim("move-key", "move"), _claim(uuid_of(1))
    instance = InstanceRow(uuid_of(1), 1, "building", False)
    outcome = failed(request(1), ends_host_id=7)
    verdict = judge(outcome, instance, [move, build])
    assert isinstance(verdict, Accept)
    assert [claim for claim, _ in verdict.ends] == [build]
    resize = replace(outcome, request=request(1, method="prep_resize"))
    verdict = judge(resize, instance, [build, move])
    assert isinstance(verdict, Accept)
    assert [claim for claim, _ in verdict.ends] == [move]
