"""What a message means for an instance of which something is known already: the rules of (uuid, attempt).

::

    attempt of the message   stored                          what is done
    ─────────────────────    ─────────────────────────────   ──────────────────────────────────────────────
    any                      tombstone                       dropped quietly, counted
    lower                    anything                        stale: acknowledged, counted
    equal                    ERROR or deleted                final states win: acknowledged, counted
    equal                    claim ``claimed``               the same cast to its host, never decided again
    equal                    claim further than that         no cast, acknowledged
    equal                    ended without an outcome        decided (expired reply of select_destinations, released)
    higher, or nothing       anything                        decided; an older claim ends in the same transaction
"""

from __future__ import annotations

from enum import StrEnum
from uuid import NAMESPACE_URL, uuid4, uuid5

from nova_sched.model.request import InstanceRef, SchedulingRequest
from nova_sched.model.states import ClaimState, EndReason
from nova_sched.service.ports import Prior, PriorClaim

_NAMESPACE = uuid5(NAMESPACE_URL, "nova_sched/claims")

#: Ends that leave the instance without any outcome, so that the same key may be decided again.
WITHOUT_OUTCOME = frozenset({EndReason.RELEASED, EndReason.UNDELIVERABLE, EndReason.EXPIRED})


class Standing(StrEnum):
    """What is to be done for one instance of a message; the values are the ``outcome`` labels that are counted."""

    DECIDE = "decide"
    CAST_AGAIN = "cast_again"
    PAST = "past"
    STALE = "stale"
    FINAL = "final"
    DELETED = "deleted"


def standing(attempt: int, prior: Prior | None) -> Standing:
    """Standing of one instance for a run_instance message of this attempt."""
    if prior is None:
        return Standing.DECIDE
    if prior.deleted:
        return Standing.DELETED
    if attempt != prior.attempt:
        return Standing.DECIDE if attempt > prior.attempt else Standing.STALE
    if prior.final:
        return Standing.FINAL
    return _of_claim(prior.claim)


def standing_of_move(instance: Prior | None, move: Prior | None) -> Standing:
    """Standing of the one instance of a prep_resize message; ``move``: what is stored under the claim's own key.

    A move that expired is decided again: a resize done twice is refused by the compute, a lost one hangs for ever.
    """
    if instance is not None and instance.deleted:
        return Standing.DELETED
    return Standing.DECIDE if move is None else _of_claim(move.claim)


def _of_claim(claim: PriorClaim | None) -> Standing:
    if claim is None:
        return Standing.DECIDE
    if claim.state is ClaimState.CLAIMED:
        return Standing.CAST_AGAIN
    if claim.state is ClaimState.ENDED and claim.ended_reason in WITHOUT_OUTCOME:
        return Standing.DECIDE
    return Standing.PAST


def answers_again(request: SchedulingRequest, prior: Prior | None) -> PriorClaim | None:
    """The claim that a repeated select_destinations is answered with, or None when it has to be decided.

    A caller that timed out and asks again gets the same host, unless it excludes that host by now.
    """
    if prior is None or prior.attempt != request.attempt or prior.claim is None:
        return None
    claim = prior.claim
    if claim.state is not ClaimState.CLAIMED:
        return None
    ignored = request.ignore_hosts is not None and claim.host in request.ignore_hosts
    return None if ignored or (claim.host, claim.node) in request.tried else claim


def claims_the_build(request: SchedulingRequest, prior: Prior | None) -> bool:
    """Whether select_destinations claims under the instance's own key (a build), not under one of its own (a move).

    A guest that runs already, or whose newer attempt is known, is being moved.
    """
    if prior is None:
        return True
    if prior.attempt > request.attempt:
        return False
    claim = prior.claim
    if claim is None or claim.state is ClaimState.ENDED:
        return True
    return prior.attempt < request.attempt and claim.state is not ClaimState.HELD


def move_key(request: SchedulingRequest, instance: InstanceRef) -> str:
    """Key of a prep_resize claim: the same for every repeat of the message, so that a repeat finds it."""
    parts = (request.method, instance.uuid, request.caller.request_id, request.attempt)
    return str(uuid5(_NAMESPACE, "/".join(map(str, parts))))


def fresh_key() -> str:
    """Key of a select_destinations claim without an instance's own: a caller that asks twice wants two answers."""
    return str(uuid4())
