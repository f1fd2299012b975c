"""What may happen to an instance and its claims: the rules of keys and repeats, without SQL.

A key is (uuid, attempt). ``run_instance`` is ordered by its attempts: a lower one is stale, an equal one a repeat unless
nothing of it lives, a higher one a new decision that ends the older claims. Calls (``select_destinations``,
``prep_resize``) have no such order: their claims hold room for a while and may be made again once they ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from nova_sched.db.room import Sums
from nova_sched.model.states import BUILDING, ERROR, ClaimState, EndReason
from nova_sched.service.ports import Failed, Outcome, Placed, VerdictKind

ORDERED = "run_instance"
LIVE = frozenset({ClaimState.CLAIMED, ClaimState.BUILDING, ClaimState.HELD})
#: States whose amounts stand beside the host's own numbers.
COUNTED = frozenset({ClaimState.CLAIMED, ClaimState.BUILDING})
#: Ends after which a guest that turns up late is believed: nobody else has the instance.
REVIVABLE = frozenset({EndReason.EXPIRED, EndReason.BUILD_TIMEOUT, EndReason.AGENT_DOWN})


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """What the rules need of a row of ``sched_instances``."""

    uuid: str
    attempt: int
    vm_state: str | None
    deleted: bool
    host: str | None = None


@dataclass(slots=True)
class ClaimRow:
    """What the rules need of a row of ``sched_claims``."""

    uuid: str
    attempt: int
    guest_uuid: str | None
    host_id: int
    kind: str
    state: ClaimState
    amounts: Sums
    has_devices: bool = False
    method: str | None = None
    ended_reason: str | None = None

    @property
    def key(self) -> tuple[str, int]:
        """(uuid, attempt)."""
        return (self.uuid, self.attempt)

    @property
    def live(self) -> bool:
        """Whether it holds room, counted or contained in the host's numbers."""
        return self.state in LIVE

    @property
    def counted(self) -> bool:
        """Whether its amounts are in the host's ``claimed_*``."""
        return self.state in COUNTED


@dataclass(frozen=True, slots=True)
class Accept:
    """The outcome may be written: first these claims end, and the row with the same key (if any) gives way."""

    ends: tuple[tuple[ClaimRow, EndReason], ...] = ()
    gives_way: ClaimRow | None = None


def judge(outcome: Outcome, instance: InstanceRow | None, claims: list[ClaimRow]) -> Accept | VerdictKind:
    """Whether an outcome may be written, before its host and group are looked at.

    :param claims: all claims whose key or guest is the outcome's instance, and the claim with the outcome's own key.
    """
    if instance is not None and instance.deleted:
        return VerdictKind.GONE
    if isinstance(outcome, Failed):
        return _judge_failure(outcome, instance, claims)
    same_key = next((claim for claim in claims if claim.key == outcome.key), None)
    if outcome.replaces_host_id is not None:
        if (
            same_key is None
            or same_key.state is not ClaimState.CLAIMED
            or same_key.host_id != outcome.replaces_host_id
        ):
            return VerdictKind.REPEAT
        return Accept(gives_way=same_key)
    if same_key is not None and same_key.live:
        return VerdictKind.REPEAT
    if outcome.claim_uuid is not None or outcome.request.method != ORDERED:
        return Accept(gives_way=same_key)
    if instance is not None:
        if instance.attempt > outcome.request.attempt:
            return VerdictKind.REPEAT
        if instance.attempt == outcome.request.attempt and instance.vm_state != BUILDING:
            return VerdictKind.REPEAT
    return Accept(ends=_older(outcome, claims), gives_way=same_key)


def _judge_failure(
    outcome: Failed, instance: InstanceRow | None, claims: list[ClaimRow]
) -> Accept | VerdictKind:
    ends: tuple[tuple[ClaimRow, EndReason], ...] = ()
    if outcome.ends_host_id is not None:
        ended = next((c for c in claims if _is_undeliverable(c, outcome)), None)
        if ended is None:
            return VerdictKind.REPEAT
        ends = ((ended, EndReason.UNDELIVERABLE),)
    if outcome.request.method != ORDERED:
        return Accept(ends=ends)
    attempt = outcome.request.attempt
    if instance is not None:
        if instance.attempt > attempt:
            return VerdictKind.REPEAT
        if instance.attempt == attempt:
            if instance.vm_state == ERROR:
                return VerdictKind.REPEAT
            if not ends and any(c.live and c.key == (outcome.instance.uuid, attempt) for c in claims):
                return VerdictKind.REPEAT
    return Accept(ends=ends + _older(outcome, claims, skip=ends[0][0] if ends else None))


def _is_undeliverable(claim: ClaimRow, outcome: Failed) -> bool:
    """Whether this is the claim whose cast came back: a build's has the key of its attempt, a move's one of its own."""
    uuid, attempt = outcome.instance.uuid, outcome.request.attempt
    if claim.state is not ClaimState.CLAIMED or claim.host_id != outcome.ends_host_id:
        return False
    return claim.key == (uuid, attempt) if outcome.request.method == ORDERED else claim.uuid != uuid


def _older(
    outcome: Outcome, claims: list[ClaimRow], skip: ClaimRow | None = None
) -> tuple[tuple[ClaimRow, EndReason], ...]:
    """Live claims of earlier attempts of the same instance: a reschedule ends them, no ``failed`` is sent then."""
    instance = outcome.placement.instance if isinstance(outcome, Placed) else outcome.instance
    return tuple(
        (claim, EndReason.RESCHEDULED)
        for claim in claims
        if claim.live
        and claim is not skip
        and claim.uuid == instance.uuid
        and claim.attempt < outcome.request.attempt
    )
