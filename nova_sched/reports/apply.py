"""The sink of the report topic: queues the words of agents and writes them a batch at a time.

Instance updates go first: a build that was heard of as ``building`` may be contained in a report of the same batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nova_sched.db.engine import Database
from nova_sched.db.losing import MakeEvent
from nova_sched.db.progress import InstanceUpdate, UpdateResult, apply_updates
from nova_sched.db.reporting import Report, ReportResult, apply_reports
from nova_sched.errors import BusUnavailable
from nova_sched.reports.reading import report_of, update_of, used_of
from nova_sched.service.ports import NullObserver, Observer
from nova_sched.wire import validate

LOG = logging.getLogger(__name__)

#: Tells the agent of a host that a guest's instance was deleted; may raise BusUnavailable.
Terminate = Callable[[str, str], None]


class ReportSink:
    """What ``manager.ReportManager`` writes to. Used by one thread.

    :param make_event: ERROR event of an instance whose build failed for good.
    :param terminate: called with (host, uuid) after the commit, for guests that should not be there any more.
    """

    def __init__(
        self,
        database: Database,
        make_event: MakeEvent,
        terminate: Terminate,
        observer: Observer | None = None,
    ) -> None:
        self._database = database
        self._make_event = make_event
        self._terminate = terminate
        self._observer = observer or NullObserver()
        self._reports: list[Report] = []
        self._updates: list[InstanceUpdate] = []

    def report_state(
        self, service: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], age_seconds: float | None = None
    ) -> None:
        """Queue one report; ``age_seconds``: time it spent on the bus, if known. Raises MalformedMessage."""
        validate.check("report_state", {"service": service, "nodes": nodes})
        self._reports.append(report_of(service, nodes, age_seconds))

    def update_instance(self, **update: Any) -> None:
        """Queue one word about an instance. Raises MalformedMessage."""
        validate.check("update_instance", update)
        self._updates.append(update_of(update))

    def apply(self) -> None:
        """Write what was queued; the queue is empty afterwards, also when StoreUnavailable is raised."""
        updates, self._updates = self._updates, []
        reports, self._reports = self._reports, []
        gone: list[tuple[str, str]] = []
        if updates:
            told = self._database.write(
                lambda connection: apply_updates(connection, updates, self._make_event)
            )
            gone += self._count_updates(told)
        if reports:
            seen = self._database.write(lambda connection: apply_reports(connection, reports, used_of))
            gone += self._count_reports(seen)
        for host, uuid in dict.fromkeys(gone):
            self._tell(host, uuid)

    def _tell(self, host: str, uuid: str) -> None:
        try:
            self._terminate(host, uuid)
        except BusUnavailable as error:
            # The next full report names the guest again.
            LOG.warning("could not tell %s that instance %s was deleted: %s", host, uuid, error)

    def _count_updates(self, result: UpdateResult) -> list[tuple[str, str]]:
        for outcome, amount in result.counts.items():
            self._observer.count("instance_updates", amount, outcome=outcome)
        return result.terminate

    def _count_reports(self, result: ReportResult) -> list[tuple[str, str]]:
        for outcome, amount in result.counts.items():
            self._observer.count("reports", amount, outcome=outcome)
        return result.terminate
