"""What a message means for an instance of which something is known, key by key."""

from __future__ import annotations

import pytest

from nova_sched.model.states import ClaimState, EndReason
from nova_sched.service.ports import Prior, PriorClaim
from nova_sched.service.standing import (
    Standing,
    answers_again,
    claims_the_build,
    move_key,
    standing,
    standing_of_move,
)
from tests.unit.service.world import resize, select, uuid_of

CLAIMED, BUILDING, HELD, ENDED = ClaimState


def prior(
    attempt: int = 1,
    claim: ClaimState | None = None,
    vm_state: str | None = "building",
    ended: EndReason | None = None,
    host: str = "h1",
) -> Prior:
    """What is stored for instance 1."""
    uuid = uuid_of(1)
    stored = None
    if claim is not None:
        stored = PriorClaim(uuid, attempt, claim, 1, host, f"{host}.node", None, ended_reason=ended)
    return Prior(uuid, attempt, vm_state, vm_state in ("error", "deleted"), vm_state == "deleted", stored)


@pytest.mark.parametrize(
    "attempt, known, expected",
    [
        (1, None, Standing.DECIDE),
        (1, prior(), Standing.DECIDE),
        (1, prior(attempt=0, vm_state="deleted"), Standing.DELETED),
        (5, prior(vm_state="deleted"), Standing.DELETED),
        (1, prior(attempt=2, claim=CLAIMED), Standing.STALE),
        (1, prior(attempt=2, vm_state="error"), Standing.STALE),
        (1, prior(vm_state="error"), Standing.FINAL),
        (1, prior(vm_state="error", claim=ENDED, ended=EndReason.EXPIRED), Standing.FINAL),
        (1, prior(claim=CLAIMED), Standing.CAST_AGAIN),
        (1, prior(claim=BUILDING), Standing.PAST),
        (1, prior(claim=HELD, vm_state="active"), Standing.PAST),
        (1, prior(claim=ENDED, ended=EndReason.OPERATOR), Standing.PAST),
        (1, prior(claim=ENDED, ended=EndReason.DELETED, vm_state="active"), Standing.PAST),
        (1, prior(claim=ENDED, ended=EndReason.RELEASED), Standing.DECIDE),
        (1, prior(claim=ENDED, ended=EndReason.UNDELIVERABLE), Standing.DECIDE),
        (1, prior(claim=ENDED, ended=EndReason.EXPIRED), Standing.DECIDE),
        (2, prior(claim=CLAIMED), Standing.DECIDE),
        (2, prior(claim=BUILDING), Standing.DECIDE),
        (2, prior(vm_state="error"), Standing.DECIDE),
    ],
)
def test_standing_of_a_build(attempt, known, expected):
    assert standing(attempt, known) is expected


def test_a_resize_looks_at_its_own_claim_and_at_the_tombstone_only():
    running = prior(claim=HELD, vm_state="active")
    assert standing_of_move(running, None) is Standing.DECIDE
    assert standing_of_move(running, prior(claim=CLAIMED, vm_state=None)) is Standing.CAST_AGAIN
    assert standing_of_move(running, prior(claim=ENDED, ended=EndReason.EXPIRED)) is Standing.DECIDE
    assert standing_of_move(prior(vm_state="deleted"), None) is Standing.DELETED


def test_a_repeated_resize_finds_the_key_of_its_claim_and_another_attempt_has_another():
    first = resize(1)
    assert move_key(first, first.instances[0]) == move_key(resize(1), first.instances[0])
    again = resize(1, attempt=2, tried=(("h1", "h1.node"),))
    assert move_key(first, first.instances[0]) != move_key(again, first.instances[0])


@pytest.mark.parametrize(
    "how, known, host",
    [
        ({}, prior(claim=CLAIMED), "h1"),
        ({}, None, None),
        ({}, prior(claim=HELD), None),
        ({}, prior(claim=ENDED, ended=EndReason.EXPIRED), None),
        ({}, prior(attempt=2, claim=CLAIMED), None),
        ({"ignore_hosts": ["h1"]}, prior(claim=CLAIMED), None),
        ({"ignore_hosts": ["h2"]}, prior(claim=CLAIMED), "h1"),
    ],
)
def test_a_call_that_is_asked_again_is_answered_again_unless_it_excludes_that_host(how, known, host):
    found = answers_again(select(1, **how), known)
    assert (found.host if found else None) == host


@pytest.mark.parametrize(
    "attempt, known, expected",
    [
        (1, None, True),
        (1, prior(vm_state="error"), True),
        (1, prior(claim=ENDED, ended=EndReason.EXPIRED), True),
        (1, prior(claim=HELD, vm_state="active"), False),
        (1, prior(claim=CLAIMED), False),
        (1, prior(attempt=2), False),
        (2, prior(claim=CLAIMED), True),
        (2, prior(claim=BUILDING), True),
        (2, prior(claim=HELD, vm_state="active"), False),
    ],
)
def test_a_call_claims_a_build_unless_the_guest_runs_or_a_newer_attempt_is_known(attempt, known, expected):
    tried = (("h9", "h9.node"),) if attempt > 1 else ()
    assert claims_the_build(select(1, attempt=attempt, tried=tried), known) is expected
