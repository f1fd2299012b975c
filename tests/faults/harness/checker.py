"""Proves the invariants of the delivery contract from the recorded history and the database, and from nothing else.

1. All build casts of one (uuid, attempt) name the same host, and a claim that was live when they were cast.
2. Every accepted instance ends with a live claim and at least one cast to its host, or in ERROR with a fault and
   exactly one distinct ERROR message id, or deleted if the client deleted it.
3. For every host and commit: no claim raises a host's sum above its limit, and the sums are those of the live claims.
4. No live claim of a deleted or failed instance.
5. Queues, outbox and unacknowledged messages are empty (``Cloud.settle`` waits for it).
6. No secret is in SQL or in a notification.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.faults.harness.audit import Books
from tests.faults.harness.history import History
from tests.faults.harness.orders import SECRET
from tests.faults.harness.sizes import SEED

LIVE = ("claimed", "building", "held")
LAG_SECONDS = 10.0
"""How long a cast may be under way from its publisher to the recorder; the claim may have ended meanwhile."""


@dataclass
class Verdict:
    """What was found. ``counts``: for the reader of a passed run."""

    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def check(self) -> Verdict:
        """Raise AssertionError with the first violations and the seed."""
        shown = "\n".join(self.violations[:20])
        assert not self.violations, f"seed {SEED}: {len(self.violations)} violations\n{shown}"
        return self


class Checker:
    """One run's judge.

    :param ram_ratio: of the filters; the limit of a host is its memory times it.
    """

    def __init__(self, history: History, books: Books, ram_ratio: float = 1.5) -> None:
        self._history = history
        self._books = books
        self._ram_ratio = ram_ratio
        self._verdict = Verdict()

    def run(self) -> Verdict:
        """All invariants."""
        self._hosts = {row[0]: row[1] for row in self._books.rows("SELECT id, host FROM sched_hosts")}
        self._read_claims()
        self._casts()
        self._outcomes()
        self._sold()
        self._sums()
        self._dead_claims()
        self._secrets()
        return self._verdict

    def _wrong(self, text: str) -> None:
        self._verdict.violations.append(text)

    def _read_claims(self) -> None:
        self._claims = {
            (row[0], row[1]): (row[2], row[3], row[4])
            for row in self._books.rows(
                "SELECT instance_uuid, attempt, host_id, state, ended_reason FROM sched_claims"
            )
        }
        self._lives: dict[tuple[str, int], list[tuple[float, str, int, str]]] = defaultdict(list)
        for at, op, uuid, attempt, host_id, state in self._books.rows(
            "SELECT at, op, uuid, attempt, host_id, state FROM audit_claims ORDER BY id"
        ):
            self._lives[(uuid, attempt)].append((at, op, host_id, state))

    def _casts(self) -> None:
        for key, casts in self._history.casts_by_key().items():
            hosts = {cast.host for cast in casts}
            self._verdict.counts["casts"] += len(casts)
            self._verdict.counts["repeated casts"] += len(casts) - 1
            if len(hosts) > 1:
                self._wrong(f"{key} was cast to {sorted(hosts)}")
            if len({cast.message_id for cast in casts}) > 1:
                self._wrong(f"{key}: repeated casts cannot be told, their message ids differ")
            for cast in casts:
                if not self._was_live(key, cast.host, cast.at):
                    self._wrong(f"{key} was cast to {cast.host} without a live claim: {self._lives.get(key)}")

    def _was_live(self, key: tuple[str, int], host: str, at: float) -> bool:
        """Some claim of this key on this host had begun before the cast was seen and had not ended long before."""
        live_since: float | None = None
        for when, op, host_id, state in self._lives.get(key, ()):
            there = op == "write" and state in LIVE and self._hosts.get(host_id) == host
            if there and live_since is None:
                live_since = when
            elif not there and live_since is not None:
                if live_since <= at + 1.0 and at - LAG_SECONDS <= when:
                    return True
                live_since = None
        return live_since is not None and live_since <= at + 1.0

    def _outcomes(self) -> None:
        rows = {
            row[0]: row
            for row in self._books.rows(
                "SELECT uuid, attempt, vm_state, host, deleted_at FROM sched_instances"
            )
        }
        faults = Counter(row[0] for row in self._books.rows("SELECT instance_uuid FROM sched_faults"))
        errors = self._history.errors_by_uuid()
        casts = self._history.casts_by_key()
        for uuid, attempt in self._history.accepted.items():
            row = rows.get(uuid)
            if row is None:
                self._wrong(f"{uuid} was lost: accepted by the broker, unknown to SQL")
                continue
            self._verdict.counts[str(row[2])] += 1
            if uuid in self._history.deleted:
                if row[4] is None:
                    self._wrong(f"{uuid} was deleted and is {row[2]}")
                continue
            if row[1] < attempt:
                self._wrong(f"{uuid}: attempt {attempt} was accepted, SQL knows {row[1]}")
            if row[2] == "error":
                if not faults[uuid]:
                    self._wrong(f"{uuid} is in ERROR without a fault")
                if len(errors.get(uuid, ())) != 1:
                    self._wrong(f"{uuid} is in ERROR with {len(errors.get(uuid, ()))} distinct ERROR events")
                continue
            claim = self._claims.get((uuid, row[1]))
            if claim is None or claim[1] not in LIVE:
                self._wrong(f"{uuid} is {row[2]} without a live claim: {claim}")
            elif self._hosts[claim[0]] not in {cast.host for cast in casts.get((uuid, row[1]), ())}:
                self._wrong(f"{uuid} is {row[2]} and was never cast to its claim's host")

    def _sold(self) -> None:
        """Whoever raised a host's sum did so within the limit; commits of one host are in the diary's order."""
        before: dict[int, int] = {}
        rows = self._books.rows(
            "SELECT host_id, memory_mb, used_memory_mb, claimed_memory_mb FROM audit_hosts ORDER BY host_id, id"
        )
        for host_id, total, used, claimed in rows:
            self._verdict.counts["commits"] += 1
            if claimed > before.get(host_id, 0) and used is not None:
                limit = total * self._ram_ratio
                if used + claimed > limit:
                    self._wrong(f"host {host_id} is oversold: {used} used + {claimed} claimed > {limit}")
            before[host_id] = claimed

    def _sums(self) -> None:
        for row in self._books.rows(
            "SELECT h.host, h.claimed_memory_mb, h.claimed_instances, COALESCE(sum(c.memory_mb), 0), count(c.host_id)"
            " FROM sched_hosts h LEFT JOIN sched_claims c ON c.host_id = h.id AND c.state IN ('claimed', 'building')"
            " GROUP BY h.id, h.host, h.claimed_memory_mb, h.claimed_instances"
        ):
            if row[1] != row[3] or row[2] != row[4]:
                self._wrong(
                    f"{row[0]} counts {row[1]} MB of {row[2]} claims, its claims are {row[3]} MB of {row[4]}"
                )

    def _dead_claims(self) -> None:
        for row in self._books.rows(
            "SELECT c.instance_uuid, c.attempt, c.state, i.vm_state, i.attempt FROM sched_claims c JOIN sched_instances i"
            " ON i.uuid = c.instance_uuid WHERE c.state IN ('claimed', 'building', 'held')"
            " AND (i.vm_state IN ('error', 'deleted') OR i.deleted_at IS NOT NULL OR c.attempt < i.attempt)"
        ):
            self._wrong(f"a live claim of an instance that ended: {tuple(row)}")

    def _secrets(self) -> None:
        for place, _ in self._books.texts_with(SECRET):
            self._wrong(f"a secret is in {place}")
        for event in self._history.events:
            if SECRET.encode() in event.body:
                self._wrong(f"a secret is in {event.event_type} of {event.uuids}")


def balanced(history: History) -> list[str]:
    """uuids whose .start events are more than their .end events; for runs in which no worker died."""
    open_: Counter[str] = Counter()
    for event in history.events:
        if event.event_type == "scheduler.run_instance.start":
            open_.update(event.uuids)
        elif event.event_type == "scheduler.run_instance.end":
            open_.subtract(event.uuids)
    return [uuid for uuid, amount in open_.items() if amount > 0]
