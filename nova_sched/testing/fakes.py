"""Doubles of the service's surroundings that behave: a bus that remembers, a store that refuses, a way to die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from nova_sched.errors import BusUnavailable, StoreUnavailable
from nova_sched.model.decision import Decision
from nova_sched.model.messages import Cast, Delivery, Event
from nova_sched.model.states import EndReason
from nova_sched.service.ports import (
    Clock,
    DecisionRecord,
    Outcome,
    OutcomeStore,
    Placed,
    Prior,
    Verdict,
    VerdictKind,
)

Message = Cast | Event


class RecordingBus:
    """A :class:`~nova_sched.service.ports.MessageBus` that keeps what it was given, in order.

    ``dead_hosts``: casts to them come back undeliverable. ``silent``: casts are taken, no word comes back.
    ``away``: nothing can be sent. ``answer``: overrides all of that for one message when it returns a delivery.
    """

    def __init__(self, answer: Callable[[Message], Delivery | None] | None = None) -> None:
        self.published: list[Message] = []
        self.dead_hosts: set[str] = set()
        self.silent = False
        self.away = False
        self._answer = answer

    @property
    def casts(self) -> list[Cast]:
        """Casts that reached a queue."""
        return [
            message
            for message in self.published
            if isinstance(message, Cast) and message.server not in self.dead_hosts
        ]

    @property
    def events(self) -> list[Event]:
        """Notifications."""
        return [message for message in self.published if isinstance(message, Event)]

    def event_types(self) -> list[str]:
        """Types of the notifications and methods of the casts, in the order of publishing."""
        return [m.method if isinstance(m, Cast) else m.event_type for m in self.published]

    def publish(self, messages: Sequence[Message]) -> list[Delivery]:
        """Keep them and answer by the script. Raises BusUnavailable while ``away``."""
        if self.away:
            raise BusUnavailable("the broker is away")
        self.published.extend(messages)
        return [self._delivery(message) for message in messages]

    def _delivery(self, message: Message) -> Delivery:
        scripted = self._answer(message) if self._answer is not None else None
        if scripted is not None:
            return scripted
        if isinstance(message, Cast):
            if self.silent:
                return Delivery.UNKNOWN
            if message.server in self.dead_hosts:
                return Delivery.UNDELIVERABLE
        return Delivery.CONFIRMED


class RefusingStore:
    """A store in front of another: refuses claims or is away, as told.

    ``away``: names of methods that raise StoreUnavailable before anything is done. ``forgets``: ``commit`` commits,
    then loses the connection before it can say so. ``lost``: (host name) → how many more claims on it are refused.
    """

    def __init__(self, store: OutcomeStore) -> None:
        self._store = store
        self.away: set[str] = set()
        self.forgets = False
        self.lost: Counter[str] = Counter()

    def prior(self, uuids: Collection[str]) -> Mapping[str, Prior]:
        """As the store behind, unless away."""
        self._check("prior")
        return self._store.prior(uuids)

    def commit(self, outcomes: Sequence[Outcome], records: Sequence[DecisionRecord] = ()) -> list[Verdict]:
        """As the store behind for what is not refused."""
        self._check("commit")
        refused = {at: self._refuses(outcome) for at, outcome in enumerate(outcomes)}
        kept = [outcome for at, outcome in enumerate(outcomes) if refused[at] is None]
        verdicts = iter(self._store.commit(kept, records))
        if self.forgets:
            self.forgets = False
            raise StoreUnavailable("the connection was lost during the commit")
        return [refused[at] or next(verdicts) for at in range(len(outcomes))]

    def end_claim(self, uuid: str, attempt: int, host_id: int, reason: EndReason) -> bool:
        """As the store behind, unless away."""
        self._check("end_claim")
        return self._store.end_claim(uuid, attempt, host_id, reason)

    def sent(self, outbox_ids: Sequence[int]) -> None:
        """As the store behind, unless away."""
        self._check("sent")
        self._store.sent(outbox_ids)

    def _check(self, method: str) -> None:
        if method in self.away:
            raise StoreUnavailable(f"{method}: the database is away")

    def _refuses(self, outcome: Outcome) -> Verdict | None:
        if isinstance(outcome, Placed) and self.lost[outcome.placement.host] > 0:
            self.lost[outcome.placement.host] -= 1
            return Verdict(VerdictKind.LOST, host_id=outcome.placement.host_id)
        return None


class Crashed(BaseException):
    """The process died; no ``except Exception`` may see it."""


class CrashAt:
    """A crash point that dies at the ``nth`` time a named point is reached, once."""

    def __init__(self, point: str | None = None, nth: int = 1) -> None:
        self.arm(point, nth)
        self.reached: Counter[str] = Counter()

    def arm(self, point: str | None, nth: int = 1) -> None:
        """Die at that point next; None: live."""
        self._point, self._left = point, nth

    def __call__(self, point: str) -> None:
        self.reached[point] += 1
        if point == self._point:
            self._left -= 1
            if self._left <= 0:
                self._point = None
                raise Crashed(point)


class ManualClock:
    """Time that passes when told to (or when somebody sleeps); ``clock`` is what the service takes."""

    def __init__(self, start: datetime = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)) -> None:
        self.seconds = 1000.0
        self._start = start
        self.clock = Clock(lambda: self.seconds, self._now, self.advance)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds

    def _now(self) -> datetime:
        return self._start + timedelta(seconds=self.seconds - 1000.0)


class CountingObserver:
    """Observer that sums counters by name and labels; durations are counted only, gauges and decisions kept."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.gauges: dict[tuple[str, ...], float] = {}
        self.decisions: list[Decision] = []

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add."""
        self.counts[name, *labels.values()] += amount

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Count the observation."""
        self.counts[name, *labels.values()] += 1

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Keep the latest value."""
        self.gauges[name, *labels.values()] = value

    def decided(self, decision: Decision, seconds: float) -> None:
        """Keep the decision."""
        self.decisions.append(decision)
