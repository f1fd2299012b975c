"""What the service needs from the outside, as protocols. ``db`` and ``rpc`` implement them; ``testing`` ships fakes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol

from nova_sched.hosts.schema import HostDelta
from nova_sched.model.decision import Decision, Placement
from nova_sched.model.explanation import Explanation
from nova_sched.model.facts import Fact, Facts, GroupFact
from nova_sched.model.limits import Limits
from nova_sched.model.messages import Cast, Delivery, Event
from nova_sched.model.quick import quick_init
from nova_sched.model.request import InstanceRef, SchedulingRequest
from nova_sched.model.states import ClaimKind, ClaimState, EndReason


@dataclass(frozen=True, slots=True)
class PriorClaim:
    """The claim of (uuid, attempt) as stored: enough to send the same cast again."""

    uuid: str
    attempt: int
    state: ClaimState
    host_id: int
    host: str
    node: str | None
    limits: Limits | None
    numa_fit: Any = None
    age_seconds: float = 0.0
    """Since the commit, by the database's clock."""
    ttl_seconds: float = 0.0
    ended_reason: EndReason | None = None
    """Why an ended claim ended; None while it lives."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known of one instance before it is decided.

    ``attempt``: newest attempt with an outcome. ``final``: vm_state is error or deleted for that attempt.
    ``deleted``: tombstone. ``claim``: claim of that attempt, live or ended.
    Asked with the claim key of a move (see :class:`Placed`), which is no instance: that claim and its attempt, with
    ``vm_state`` None and neither final nor deleted.
    """

    uuid: str
    attempt: int
    vm_state: str | None
    final: bool
    deleted: bool
    claim: PriorClaim | None


@quick_init
@dataclass(frozen=True, slots=True)
class Placed:
    """Outcome: this instance gets this host.

    ``replaces_host_id``: the claim of the same key on that host is ended as undeliverable in the same transaction
    (compare-and-set); None for a fresh claim. ``kind``/``ttl_seconds``: build, or move for select/prep_resize.
    ``claim_uuid``: what keys the claim when it is not the instance's uuid: a move stands beside the build of the same
    instance, and a select_destinations may name no instance at all. Such a claim leaves ``sched_instances`` alone.
    """

    request: SchedulingRequest
    placement: Placement
    kind: ClaimKind
    ttl_seconds: int
    replaces_host_id: int | None = None
    claim_uuid: str | None = None

    @property
    def key(self) -> tuple[str, int]:
        """(uuid, attempt) of the claim."""
        uuid = self.claim_uuid or self.placement.instance.uuid
        assert uuid is not None
        return (uuid, self.request.attempt)


@dataclass(frozen=True, slots=True)
class Failed:
    """Outcome: this instance ends in ERROR (run_instance), with its fault and its ERROR event in the outbox.

    ``vm_state``: state to set (prep_resize keeps the given one). ``traceback``: of an unexpected exception.
    ``ends_host_id``: a claim of this key to end in the same transaction.
    """

    request: SchedulingRequest
    instance: InstanceRef
    reason: str
    event: Event | None
    vm_state: str = "error"
    traceback: str | None = None
    code: int = 500
    ends_host_id: int | None = None


Outcome = Placed | Failed


class VerdictKind(StrEnum):
    """What the store did with an outcome."""

    COMMITTED = "committed"
    LOST = "lost"
    """A guard refused: the host (or group) changed; decide again with fresh rows."""
    REPEAT = "repeat"
    """Another worker committed this key first, or it is stale or final: read prior again."""
    GONE = "gone"
    """The instance was deleted meanwhile (tombstone)."""
    BROKEN = "broken"
    """SQL refused this outcome's own data (a value that no column takes); nothing of it is written, the others stand."""


@quick_init
@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer for one outcome, in the order given.

    LOST: ``host_id`` is the host whose guard refused, None when it was the group's. REPEAT: ``prior`` as stored now
    (None: the caller reads it). COMMITTED: ``outbox_id`` of the ERROR event of a :class:`Failed`.
    """

    kind: VerdictKind
    host_id: int | None = None
    outbox_id: int | None = None
    prior: Prior | None = None


@quick_init
@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One decision for the history: written in the transaction of its outcomes."""

    request: SchedulingRequest
    explanation: Explanation
    outcomes: Mapping[str, str] = field(default_factory=dict)
    """uuid → host/node or reason."""
    shadow: Mapping[str, Any] | None = None
    """Where a shadow configuration would have chosen otherwise: source, driver, kind, instances, outcomes, reason."""


class HostSource(Protocol):
    """Reads of host state."""

    def read_delta(self, cursor: Any | None) -> HostDelta:
        """Rows changed since ``cursor`` (None: all), with a new cursor and the database's clock.

        Raises StoreUnavailable.
        """
        ...

    def read_rows(self, host_ids: Collection[int]) -> HostDelta:
        """Fresh rows of these hosts (after a lost guard); the cursor is None."""
        ...


class FactSource(Protocol):
    """Reads that only some plugins need."""

    def load(self, requests: Sequence[SchedulingRequest], needs: frozenset[Fact]) -> list[Facts]:
        """Facts of each request, a constant number of statements for the whole batch. Raises StoreUnavailable.

        The group is found by hint (uuid or name) or by membership of the first instance. An unknown hinted group
        leaves ``facts.group`` None; the driver refuses.
        """
        ...


class OutcomeStore(Protocol):
    """Writes of outcomes: the one door."""

    def prior(self, uuids: Collection[str]) -> Mapping[str, Prior]:
        """What is known of these instances; unknown ones are left out. Raises StoreUnavailable."""
        ...

    def commit(self, outcomes: Sequence[Outcome], records: Sequence[DecisionRecord] = ()) -> list[Verdict]:
        """Commit in one transaction (falling back to smaller ones); one verdict per outcome. Raises StoreUnavailable.

        Placements of one call that name the same host or group were decided knowing each other: amounts are guarded
        by their sum, a generation once for all of them. An ended claim of the same key that left no final state
        (expired select_destinations, released, undeliverable) gives way to a new one. A record whose placements were
        all lost is not kept.
        """
        ...

    def end_claim(self, uuid: str, attempt: int, host_id: int, reason: EndReason) -> bool:
        """End a live claim on that host; False if it is not live there any more. Raises StoreUnavailable."""
        ...

    def sent(self, outbox_ids: Sequence[int]) -> None:
        """Forget outbox rows whose events the broker confirmed. Raises StoreUnavailable."""
        ...


class MessageBus(Protocol):
    """Writes to the bus."""

    def publish(self, messages: Sequence[Cast | Event]) -> list[Delivery]:
        """Send all, wait for the broker's word on each. Raises BusUnavailable when nothing can be sent in time.

        Events that may be lost (INFO) are answered CONFIRMED once handed over; they never hold casts back.
        """
        ...


class RequestMessages(Protocol):
    """Every message of one request (``wire.outbound.RequestMessages``); shared parts are built once.

    ``now`` is an aware UTC time. ``start`` and ``end`` name all uuids of the message, whatever was narrowed meanwhile.
    """

    def start(self, now: datetime) -> Event:
        """``scheduler.<method>.start``."""
        ...

    def scheduled(self, placement: Placement, now: datetime) -> Event:
        """``scheduler.run_instance.scheduled`` of one instance."""
        ...

    def end(self, now: datetime) -> Event:
        """``scheduler.<method>.end``, after everything else."""
        ...

    def error(self, instance: InstanceRef, reason: str, now: datetime, vm_state: str | None = None) -> Event:
        """ERROR event ``scheduler.<method>`` of one instance; ``vm_state`` None: what ``refused_vm_state`` says."""
        ...

    def update(self, instance: InstanceRef, vm_state: str, now: datetime) -> Event | None:
        """``compute.instance.update`` of an instance that ended; None where ``notify_on_state_change`` wants none."""
        ...

    def refused_vm_state(self) -> str:
        """State after NoValidHost: ``error``; prep_resize leaves the instance as it was."""
        ...

    def cast(
        self,
        placement: Placement,
        now: datetime,
        expiration_seconds: float | None = None,
        group: GroupFact | None = None,
    ) -> Cast:
        """The cast to the chosen host's compute; ``group``: server group with this request's placements in it."""
        ...

    def destinations(self, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Reply of select_destinations: ``{host, nodename, limits}`` each, in order."""
        ...


class Messages(Protocol):
    """Maker of messages (``wire.outbound.Outbound``)."""

    def of(self, request: SchedulingRequest) -> RequestMessages:
        """Messages of this request."""
        ...


def _utcnow() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """The times the service knows: seconds that never go back, for time-outs, and aware UTC, for what people read."""

    monotonic: Callable[[], float] = time.monotonic
    utcnow: Callable[[], datetime] = _utcnow
    sleep: Callable[[float], None] = time.sleep


CrashPoint = Callable[[str], None]
"""Called with the name of the point reached; a fault test may end the process there, all others go on."""

CRASH_POINTS = (
    "before_prior",
    "before_decide",
    "before_commit",
    "after_commit",
    "before_publish",
    "after_publish",
    "after_confirm",
    "after_sent",
)
"""Points of the loop, in the order a request meets them; those of taking and acknowledging lie in ``rpc``."""


def no_crash(point: str) -> None:
    """The default: go on."""


class Observer(Protocol):
    """Counts, durations, gauges and decisions; metrics in the daemon, nothing in tests.

    The names there are stand in ``health.catalogue``, with their labels.
    """

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add to a counter."""
        ...

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Record a duration."""
        ...

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        ...

    def decided(self, decision: Decision, seconds: float) -> None:
        """Record what a driver answered and how long it took: its result and what each filter took out."""
        ...


class NullObserver:
    """Observer that keeps nothing."""

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Ignore."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Ignore."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Ignore."""

    def decided(self, decision: Decision, seconds: float) -> None:
        """Ignore."""
