"""The one door for outcomes: claims, instance states, faults, events, outbox and decision records of a batch.

One transaction per batch, with a constant number of statements: lock instances, groups, hosts (in that order), judge
each outcome against what is locked, write what was accepted. An outcome that lost is left out, so nothing of the
others is rolled back. When SQL itself refuses the batch (a value no column takes), the outcomes are committed one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from nova_sched.db import claims as claim_rows
from nova_sched.db import outbox
from nova_sched.db.engine import Database
from nova_sched.db.prior import read_prior
from nova_sched.db.records import OutcomeRows
from nova_sched.db.room import Room, Sums
from nova_sched.db.rules import Accept, ClaimRow, InstanceRow, judge
from nova_sched.db.sqltext import Statements
from nova_sched.model.states import ClaimState, EndReason
from nova_sched.service.ports import DecisionRecord, Failed, Outcome, Placed, Prior, Verdict, VerdictKind

LOG = logging.getLogger(__name__)

_SQL = Statements(
    lock_groups=lambda d: (
        f"{d.select_in_order} t.uuid, t.id, t.generation FROM {d.rows('d', {'uuid': 'key'})}"
        f" JOIN sched_groups t ON t.uuid = d.uuid ORDER BY t.uuid{d.locking('t')}"
    ),
    bump_groups=lambda d: d.update("sched_groups", {"id": "int"}, {}, {"generation": "t.generation + 1"}),
    add_members=lambda d: (
        "INSERT INTO sched_group_members (group_id, instance_uuid) SELECT d.id, d.uuid"
        f" FROM {d.rows('d', {'id': 'int', 'uuid': 'key'})} WHERE NOT EXISTS"
        " (SELECT 1 FROM sched_group_members m WHERE m.group_id = d.id AND m.instance_uuid = d.uuid)"
    ),
)


class SqlOutcomeStore:
    """``service.ports.OutcomeStore`` on SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def prior(self, uuids: Collection[str]) -> Mapping[str, Prior]:
        """What is known of these instances or claim keys; one statement. Raises StoreUnavailable."""
        if not uuids:
            return {}
        return self._database.read(lambda connection: read_prior(connection, uuids))

    def commit(self, outcomes: Sequence[Outcome], records: Sequence[DecisionRecord] = ()) -> list[Verdict]:
        """Commit outcomes and the records of their decisions; one verdict each, in order. Raises StoreUnavailable.

        An outcome that SQL refuses for its data is answered BROKEN; the others stand.
        """
        try:
            return self._commit(outcomes, records)
        except (sa.exc.DBAPIError, orjson.JSONEncodeError, OverflowError) as error:
            if len(outcomes) <= 1:
                if not outcomes:
                    raise
                LOG.error(
                    "SQL refused an outcome of request %s: %s",
                    outcomes[0].request.caller.request_id,
                    _cause(error),
                )
                return [Verdict(VerdictKind.BROKEN)]
            LOG.warning(
                "SQL refused a batch of %d outcomes, committing one by one: %s", len(outcomes), _cause(error)
            )
        verdicts = []
        waiting = list(records)
        for outcome in outcomes:
            own = [record for record in waiting if _speaks_of(record, outcome)]
            verdict = self.commit([outcome], own)[0]
            if verdict.kind is VerdictKind.COMMITTED:
                waiting = [record for record in waiting if record not in own]
            verdicts.append(verdict)
        return verdicts

    def end_claim(self, uuid: str, attempt: int, host_id: int, reason: EndReason) -> bool:
        """End a live claim on that host; False if it is not live there any more. Raises StoreUnavailable."""

        def end(connection: Connection) -> bool:
            rooms = claim_rows.lock_rooms(connection, [host_id])
            for claim in claim_rows.claims_of_keys(connection, [uuid]):
                if claim.attempt == attempt and claim.host_id == host_id and claim.live:
                    claim_rows.move_claims(connection, rooms, [(claim, ClaimState.ENDED, reason)])
                    claim_rows.write_rooms(connection, rooms.values())
                    return True
            return False

        return self._database.write(end)

    def sent(self, outbox_ids: Sequence[int]) -> None:
        """Forget outbox rows whose events the broker confirmed. Raises StoreUnavailable."""
        if outbox_ids:
            self._database.write(lambda connection: outbox.remove(connection, outbox_ids))

    def _commit(self, outcomes: Sequence[Outcome], records: Sequence[DecisionRecord]) -> list[Verdict]:
        tries = 0

        def run(connection: Connection) -> list[Verdict]:
            nonlocal tries
            tries += 1
            # A first try trusts that unknown instances have no claims; a repeat (key conflict) looks at every key.
            return _Commit(connection, outcomes, records, thorough=tries > 1).run()

        return self._database.write(run)


@dataclass(slots=True)
class _Candidate:
    """An outcome that the rules accept, while its group and host are still to be asked."""

    index: int
    outcome: Outcome
    accept: Accept


class _Commit:
    """One transaction; made for one try."""

    def __init__(
        self,
        connection: Connection,
        outcomes: Sequence[Outcome],
        records: Sequence[DecisionRecord],
        thorough: bool,
    ) -> None:
        self._connection = connection
        self._outcomes = outcomes
        self._records = records
        self._thorough = thorough
        self._verdicts: list[Verdict | None] = [None] * len(outcomes)
        self._committed: set[int] = set()
        self._rows = OutcomeRows()
        self._rooms: dict[int, Room] = {}
        self._groups: dict[str, tuple[int, int]] = {}

    def run(self) -> list[Verdict]:
        """Lock, judge, write; the caller commits."""
        candidates = self._judge()
        candidates = self._check_groups(candidates)
        self._lock_hosts(candidates)
        moves: list[tuple[ClaimRow, ClaimState, EndReason | None]] = []
        removed: list[ClaimRow] = []
        members: list[tuple[int, str | None]] = []
        for candidate in candidates:
            if not self._fits(candidate):
                continue
            moves += [(claim, ClaimState.ENDED, reason) for claim, reason in candidate.accept.ends]
            if candidate.accept.gives_way is not None:
                removed.append(candidate.accept.gives_way)
            outcome = candidate.outcome
            outbox_id = None
            if isinstance(outcome, Placed):
                group = self._groups.get(outcome.placement.group_uuid or "")
                room = self._rooms[outcome.placement.host_id]
                pci, numa = room.take_devices(outcome.placement)
                self._rows.placed(outcome, room, group[0] if group else None, pci, numa)
                if group:
                    members.append((group[0], outcome.placement.instance.uuid))
            else:
                outbox_id = self._rows.failed(outcome)
            self._committed.add(candidate.index)
            self._verdicts[candidate.index] = Verdict(VerdictKind.COMMITTED, outbox_id=outbox_id)
        self._write(moves, removed, members)
        assert all(verdict is not None for verdict in self._verdicts)
        return [verdict for verdict in self._verdicts if verdict is not None]

    def _judge(self) -> list[_Candidate]:
        uuids = {uuid for outcome in self._outcomes if (uuid := instance_uuid(outcome)) is not None}
        instances = claim_rows.lock_instances(self._connection, uuids)
        by_uuid = self._claims(uuids, instances)
        self._rows.known = instances
        candidates = []
        taken: set[tuple[str, int]] = set()
        for index, outcome in enumerate(self._outcomes):
            uuid = instance_uuid(outcome)
            key = outcome.key if isinstance(outcome, Placed) else (uuid or "", outcome.request.attempt)
            related = list(by_uuid.get(uuid or "", []))
            related += [claim for claim in by_uuid.get(key[0], []) if claim not in related]
            judged = judge(outcome, instances.get(uuid or ""), related)
            if isinstance(judged, Accept) and key not in taken:
                taken.add(key)
                candidates.append(_Candidate(index, outcome, judged))
            else:
                kind = VerdictKind.REPEAT if isinstance(judged, Accept) else judged
                self._verdicts[index] = Verdict(kind)
        return candidates

    def _claims(self, uuids: set[str], instances: Mapping[str, InstanceRow]) -> dict[str, list[ClaimRow]]:
        """Claims by guest and by key; unknown instances are not asked for in a first try."""
        guests = set(uuids) if self._thorough else set(instances)
        for outcome in self._outcomes:
            replaced = outcome.replaces_host_id if isinstance(outcome, Placed) else outcome.ends_host_id
            if replaced is not None and (uuid := instance_uuid(outcome)) is not None:
                guests.add(uuid)
        keys = {o.claim_uuid for o in self._outcomes if isinstance(o, Placed) and o.claim_uuid is not None}
        found: dict[tuple[str, int], ClaimRow] = {}
        if guests:
            found.update(
                (claim.key, claim) for claim in claim_rows.claims_of_guests(self._connection, guests)
            )
        if keys:
            found.update((claim.key, claim) for claim in claim_rows.claims_of_keys(self._connection, keys))
        by_uuid: dict[str, list[ClaimRow]] = {}
        for claim in found.values():
            for uuid in {claim.uuid, claim.guest_uuid or claim.uuid}:
                by_uuid.setdefault(uuid, []).append(claim)
        return by_uuid

    def _check_groups(self, candidates: list[_Candidate]) -> list[_Candidate]:
        """Placements of one call know each other: the generation that each saw is compared with the one locked."""
        wanted = {uuid for c in candidates if (uuid := _group(c.outcome)) is not None}
        if not wanted:
            return candidates
        rows = [{"uuid": uuid} for uuid in sorted(wanted)]
        for uuid, group_id, generation in _SQL.fetch(self._connection, "lock_groups", rows):
            self._groups[uuid] = (group_id, generation)
        kept = []
        for candidate in candidates:
            uuid = _group(candidate.outcome)
            if uuid is not None:
                assert isinstance(candidate.outcome, Placed)
                found = self._groups.get(uuid)
                if found is None or found[1] != candidate.outcome.placement.group_generation:
                    self._verdicts[candidate.index] = Verdict(VerdictKind.LOST)
                    continue
            kept.append(candidate)
        return kept

    def _lock_hosts(self, candidates: list[_Candidate]) -> None:
        ids: set[int] = set()
        with_devices = False
        for candidate in candidates:
            ids.update(claim.host_id for claim, _ in candidate.accept.ends)
            if candidate.accept.gives_way is not None:
                ids.add(candidate.accept.gives_way.host_id)
            if isinstance(candidate.outcome, Placed):
                ids.add(candidate.outcome.placement.host_id)
                with_devices |= candidate.outcome.placement.pci_pools is not None
        self._rooms = claim_rows.lock_rooms(self._connection, ids, with_devices)

    def _fits(self, candidate: _Candidate) -> bool:
        """Whether the host takes it; then the room is taken. Room that the older claims leave is not counted on."""
        outcome = candidate.outcome
        if isinstance(outcome, Failed):
            return True
        placement = outcome.placement
        asked = Sums.of(outcome.request.amounts)
        room = self._rooms.get(placement.host_id)
        refused = ["the host is gone"] if room is None else room.unmet(placement, asked)
        if room is None or refused:
            LOG.debug(
                "Claim of %s on %s/%s lost: %s",
                outcome.key,
                placement.host,
                placement.node,
                "; ".join(refused),
            )
            self._verdicts[candidate.index] = Verdict(VerdictKind.LOST, host_id=placement.host_id)
            return False
        room.take(asked)
        return True

    def _write(
        self,
        moves: list[tuple[ClaimRow, ClaimState, EndReason | None]],
        removed: list[ClaimRow],
        members: list[tuple[int, str | None]],
    ) -> None:
        connection = self._connection
        claim_rows.move_claims(connection, self._rooms, moves)
        claim_rows.remove_claims(connection, self._rooms, removed)
        committed = frozenset(id(self._outcomes[index].request) for index in self._committed)
        kept = [record for record in self._records if self._is_kept(record, committed)]
        self._rows.write(connection, kept)
        if members:
            named = sorted({(group_id, uuid) for group_id, uuid in members if uuid is not None})
            if named:
                _SQL.run(
                    connection, "add_members", [{"id": group_id, "uuid": uuid} for group_id, uuid in named]
                )
            _SQL.run(
                connection, "bump_groups", [{"id": group_id} for group_id in sorted({m[0] for m in members})]
            )
        claim_rows.write_rooms(connection, self._rooms.values())

    def _is_kept(self, record: DecisionRecord, committed: frozenset[int]) -> bool:
        """A record stays unless it speaks of outcomes here of which none was committed."""
        if id(record.request) in committed:  # as nearly always, and looked up once for the whole batch
            return True
        own = [i for i, outcome in enumerate(self._outcomes) if _speaks_of(record, outcome)]
        return not own or any(i in self._committed for i in own)


def _cause(error: Exception) -> str:
    """What was wrong, without the statement and its values."""
    return " ".join(str(getattr(error, "orig", error)).split())[:500]


def instance_uuid(outcome: Outcome) -> str | None:
    """The instance an outcome is about; None for a destination without one."""
    return outcome.placement.instance.uuid if isinstance(outcome, Placed) else outcome.instance.uuid


def _group(outcome: Outcome) -> str | None:
    return outcome.placement.group_uuid if isinstance(outcome, Placed) else None


def _speaks_of(record: DecisionRecord, outcome: Outcome) -> bool:
    if record.request is outcome.request:
        return True
    uuid = instance_uuid(outcome)
    if uuid is None:
        return record.request.caller.request_id == outcome.request.caller.request_id
    return uuid in record.outcomes or (not record.outcomes and uuid in record.request.uuids)
