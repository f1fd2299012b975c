"""The rounds of upkeep. Each is harmless when several workers run it at once: all writes are guarded by what they found."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from nova_sched.db.engine import Database
from nova_sched.db.expiry import Expiry, ExpiryLimits
from nova_sched.db.losing import MakeEvent
from nova_sched.db.outbox import Outbox
from nova_sched.db.retention import Ages, Retention
from nova_sched.model.messages import Delivery
from nova_sched.service.ports import MessageBus, NullObserver, Observer
from nova_sched.settings import Settings
from nova_sched.upkeep.periodic import Periodic

LOG = logging.getLogger(__name__)

#: Events younger than this are still in the hands of the worker that wrote them.
OUTBOX_AGE_SECONDS = 5.0
OUTBOX_BATCH = 100
RETENTION_INTERVAL_SECONDS = 300.0
#: Rounds without progress end after this many batches, so that one round stays short.
BATCHES_MAX = 50


class Upkeep:
    """Expiry, outbox and retention of one process.

    :param make_event: ERROR event of an instance that is given up.
    :param bus: where outbox events go.
    :param monotonic: clock, seconds; agents are judged only after this process has been up for a
        ``service_down_time``, since before that their silence may have been ours.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        make_event: MakeEvent,
        bus: MessageBus,
        observer: Observer | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._expiry = Expiry(database, make_event)
        self._outbox = Outbox(database)
        self._retention = Retention(database)
        self._settings = settings
        self._bus = bus
        self._observer = observer or NullObserver()
        self._monotonic = monotonic
        self._started = monotonic()

    def configure(self, settings: Settings) -> None:
        """Use other settings from the next round on; the intervals stay."""
        self._settings = settings

    def expire(self) -> None:
        """End overdue claims; their instances go to ERROR. Raises StoreUnavailable."""
        down = self._settings.scheduler.filters.service_down_time_seconds
        limits = ExpiryLimits(
            build_timeout_seconds=self._settings.delivery.build_timeout_seconds,
            service_down_time_seconds=down,
            watch_agents=self._monotonic() - self._started >= down,
        )
        for _ in range(BATCHES_MAX):
            ended = self._expiry.run(limits)
            for reason, amount in ended.items():
                self._observer.count("claims_expired", amount, reason=reason)
                LOG.warning("%d claims ended: %s", amount, reason)
            if not ended:
                return

    def send_events(self) -> None:
        """Send what waits in the outbox until the broker takes no more. Raises StoreUnavailable, BusUnavailable."""
        self._observer.gauge("outbox_rows", float(self._outbox.size()))
        for _ in range(BATCHES_MAX):
            waiting = self._outbox.pending(OUTBOX_BATCH, OUTBOX_AGE_SECONDS)
            if not waiting:
                return
            answers = self._bus.publish([event for _, event in waiting])
            sent = [
                row[0] for row, answer in zip(waiting, answers, strict=True) if answer is Delivery.CONFIRMED
            ]
            self._outbox.sent(sent)
            self._observer.count("outbox_sent", len(sent))
            if len(sent) < len(waiting):
                LOG.warning(
                    "%d of %d events of the outbox were not confirmed", len(waiting) - len(sent), len(waiting)
                )
                return

    def purge(self) -> None:
        """Delete old history. Raises StoreUnavailable."""
        deleted = self._retention.purge(Ages.of(self._settings.retention, self._settings.delivery))
        for table, amount in deleted.items():
            self._observer.count("rows_purged", amount, table=table)

    def loops(self) -> list[Periodic]:
        """The loops of a daemon, not started yet."""
        interval = self._settings.delivery.upkeep_interval_seconds
        return [
            Periodic("claim expiry", interval, self.expire, self._monotonic),
            Periodic("outbox", interval, self.send_events, self._monotonic),
            Periodic("retention", RETENTION_INTERVAL_SECONDS, self.purge, self._monotonic),
        ]
