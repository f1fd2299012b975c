"""One scheduling process: every room connected, from the topic to the tables and back."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from nova_sched.attestation import AttestationServer, AttestedFacts, TrustCache
from nova_sched.bootstrap import memory, transports
from nova_sched.bootstrap.waiting import Stopped, wait_for
from nova_sched.db import schema
from nova_sched.db.decisions import describe
from nova_sched.db.deliveries import Deliveries
from nova_sched.db.engine import Database
from nova_sched.db.facts import SqlFactSource
from nova_sched.db.hosts import SqlHostSource
from nova_sched.db.instances import InstanceDirectory
from nova_sched.db.outcomes import SqlOutcomeStore
from nova_sched.errors import StoreUnavailable
from nova_sched.hosts.table import HostTable
from nova_sched.manager import BaseAPI, NovaSchedAPI, ReportManager, SchedulerManager
from nova_sched.model.messages import Event
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins import registry
from nova_sched.reports.apply import ReportSink
from nova_sched.rpc import Target
from nova_sched.rpc.bus.crash import CrashPoint
from nova_sched.rpc.bus.server import BusServer
from nova_sched.rpc.factory import make_dead_letters, make_notifier, make_publisher
from nova_sched.rpc.transport import close_transport
from nova_sched.service.batch import Batch
from nova_sched.service.ports import FactSource, NullObserver, Observer, no_crash
from nova_sched.service.refresh import HostRefresher
from nova_sched.service.shadow import Shadow
from nova_sched.service.watchdog import Watchdog
from nova_sched.settings import SchedulerSettings, Settings
from nova_sched.upkeep.rounds import Upkeep
from nova_sched.wire.outbound import Outbound

LOG = logging.getLogger(__name__)

REPORT_GIVE_WAY_SECONDS = 0.25
REPORTS_FIRST_SECONDS, REPORTS_QUIET_SECONDS, REPORTS_LOOK_SECONDS = 5.0, 0.2, 0.05
SYSTEM_CONTEXT: dict[str, Any] = {
    "is_admin": True,
    "user_id": None,
    "project_id": None,
    "roles": [],
    "read_deleted": "no",
}
"""Context of casts that nobody asked for."""


class Pulse(Protocol):
    """Told by the loop that it turns; see ``bootstrap.pulse``."""

    def __call__(self, worker: Worker) -> None:
        """Called in the loop's thread, at every turn."""
        ...

    def starting(self) -> AbstractContextManager[None]:
        """Around the start, which waits for SQL and the broker however long they are away."""
        ...


class Switch(Protocol):
    """Something that is on or off for several processes."""

    value: bool


class _Off:
    value = False


class Worker:
    """Builds and runs one process's share of the service.

    Nothing is connected before :meth:`start`, so an object may be made before a fork and started after it.

    :param conf: the parsed configuration (the transports' own options).
    :param shadow: scheduler settings of a shadow configuration; ``shadow_off``: set when it hung a worker.
    :param upkeep: run the rounds of upkeep in this process.
    """

    def __init__(
        self,
        conf: Any,
        settings: Settings,
        *,
        upkeep: bool = True,
        observer: Observer | None = None,
        pulse: Pulse | None = None,
        crash_point: CrashPoint = no_crash,
        name: str = "scheduler",
        shadow: SchedulerSettings | None = None,
        shadow_off: Switch | None = None,
    ) -> None:
        self._conf = conf
        self._observer = observer or NullObserver()
        self._pulse = pulse
        self._crash_point = crash_point
        self._with_upkeep = upkeep
        self._name = name
        self._stopping = threading.Event()
        self._closing = threading.Lock()
        self._swap = threading.Lock()
        self._upkeep: Upkeep | None = None
        self._next: tuple[Settings, Any, Shadow | None] | None = None
        self._shadow_settings = shadow
        self._shadow_off = _Off() if shadow_off is None else shadow_off
        self._closers: list[Callable[[], object]] = []
        self.settings = settings
        self.store_answers = True
        self.server: BusServer | None = None
        self.reports: BusServer | None = None

    def start(self) -> None:
        """Wait for SQL and the broker, then consume.

        :raises ConfigurationError: the schema or a plugin is not what is needed.
        :raises QueueMismatch: a queue exists with other properties.
        :raises Stopped: :meth:`stop` was called meanwhile.
        """
        driver = registry.load_driver(self.settings.scheduler)
        with self._pulse.starting() if self._pulse is not None else nullcontext():
            database = Database(self.settings.database)
            self._closers.append(database.close)
            wait_for("database", lambda: schema.check(database), self._stopping)
            self._build(driver, database)
            self._start_servers()
        if self._stopping.is_set():
            self._close()
            raise Stopped("start")
        memory.settle()
        if self._pulse is not None:
            self._pulse(self)
        LOG.info(
            "scheduling with %s (%s) on topic %s as host %s",
            driver.name,
            ", ".join(driver.plugins()) or "no filters and weighers",
            self.settings.bus.scheduler_topic,
            self.settings.bus.host,
        )

    def stop(self, timeout_seconds: float) -> bool:
        """Stop consuming, finish what is in hand, give the rest back, leave. True if all was finished in time.

        Idempotent; safe at any moment of :meth:`start`.
        """
        self._stopping.set()
        until = time.monotonic() + timeout_seconds
        finished = True
        for server in (self.server, self.reports):
            if server is not None:
                finished &= server.stop(max(0.1, until - time.monotonic()))
        self._close()
        return finished

    def reload(self, settings: Settings, shadow: SchedulerSettings | None = None) -> None:
        """Decide with these settings from the next batch on. Raises ConfigurationError; the old ones stay then."""
        driver = registry.load_driver(settings.scheduler)
        chosen = (settings, driver, self._shadow(shadow, settings))
        with self._swap:
            self._next = chosen

    @property
    def stopping(self) -> bool:
        """Told to stop."""
        return self._stopping.is_set()

    @property
    def pending(self) -> int:
        """Requests taken from the scheduler topic and not acknowledged yet."""
        return self.server.pending if self.server is not None else 0

    @property
    def consuming(self) -> bool:
        """Connected to the scheduler topic, as far as is known."""
        return self.server is not None and self.server.consuming

    def _close(self) -> None:
        """Close what was opened, last first."""
        with self._closing:
            while self._closers:
                self._closers.pop()()

    def _build(self, driver: Any, database: Database) -> None:
        settings, conf = self.settings, self._conf
        self.database = database
        transport = transports.rpc_transport(conf, settings)
        notifications = transports.notification_transport(conf, settings)
        notifier = make_notifier(
            notifications, transports.notification_settings(conf, settings), self._name, self._observer
        )
        self.publisher = make_publisher(
            transport,
            notifier,
            self._name,
            settings.delivery.publish_timeout_seconds,
            self._crash_point,
            self._observer,
        )
        self._closers += [partial(close_transport, one) for one in (transport, notifications)]
        self._closers.append(self.publisher.close)
        self.outbound = Outbound(settings.bus)
        self.refresher = HostRefresher(
            SqlHostSource(database),
            HostTable(),
            period_seconds=driver.refresh_period_seconds,
            full_interval_seconds=settings.delivery.refresh_full_interval_seconds,
            observer=self._observer,
        )
        self.batch = Batch(
            driver=driver,
            hosts=self.refresher,
            facts=self._facts(database),
            store=SqlOutcomeStore(database),
            bus=self.publisher,
            messages=self.outbound,
            delivery=settings.delivery,
            observer=self._observer,
            crash_point=self._crash_point,
            shadow=self._shadow(self._shadow_settings, settings),
        )
        self.manager = SchedulerManager(self.batch, settings)
        self.own = NovaSchedAPI(
            self.batch, InstanceDirectory(database), describe, settings, terminate=self._terminate
        )
        dead_letters = make_dead_letters(transport, settings.bus, settings.delivery)
        common: dict[str, Any] = {
            "delivery": settings.delivery,
            "dead_letters": dead_letters,
            "deliveries": Deliveries(database),
            "observer": self._observer,
            "crash_point": self._crash_point,
        }
        self.server = BusServer(
            transport,
            Target(topic=settings.bus.scheduler_topic, server=settings.bus.host),
            [self.manager, BaseAPI(), self.own],
            on_batch_end=self._end_batch,
            on_poison=self.manager.refuse,
            on_idle=self._idle,
            **common,
        )
        report_manager = ReportManager(
            ReportSink(database, self._error_event, self._terminate, self._observer),
            lambda: self.reports.age_seconds if self.reports is not None else 0.0,
        )
        self.reports = BusServer(
            transport,
            Target(topic=settings.bus.report_topic, server=settings.bus.host),
            [report_manager],
            on_batch_end=report_manager.end_batch,
            give_way_to=self.server,
            give_way_seconds=REPORT_GIVE_WAY_SECONDS,
            **common,
        )

    def _start_servers(self) -> None:
        assert self.server is not None
        assert self.reports is not None
        watchdog = Watchdog(lambda: self.batch.guard, self.settings.scheduler.plugins.plugin_timeout_seconds)
        # A shadow that hangs ends its worker too, and is not asked by any other.
        shadowing = Watchdog(
            lambda: self.batch.shadow.guard if self.batch.shadow is not None else None,
            self.settings.scheduler.plugins.plugin_timeout_seconds,
            leave=self._leave_shadow,
            timer=False,
        )
        for one in (watchdog, shadowing):
            one.start()
            self._closers.append(one.stop)
        self.reports.start()
        self._hear_reports(self.reports)
        self.server.start()
        if self._with_upkeep and not self._stopping.is_set():
            self._upkeep = Upkeep(
                self.database, self.settings, self._error_event, self.publisher, self._observer
            )
            for loop in self._upkeep.loops():
                loop.start()
                self._closers.append(loop.stop)

    def _hear_reports(self, reports: BusServer) -> None:
        """Apply what agents said while nobody listened, before the first decision.

        After an outage longer than ``service_down_time`` every host would count as down, and every build that waited
        would end in ERROR. Bounded, since agents of a large cloud never fall silent, and those of a dead one never speak.
        """
        until = time.monotonic() + REPORTS_FIRST_SECONDS
        quiet_since = time.monotonic()
        while not self._stopping.wait(REPORTS_LOOK_SECONDS):
            now = time.monotonic()
            if reports.pending or not reports.consuming:
                quiet_since = now
            heard = now - quiet_since >= REPORTS_QUIET_SECONDS and self._sees_life()
            if heard or now >= until:
                return

    def _sees_life(self) -> bool:
        """Whether some host is up, as far as SQL knows; another worker may have its report in hand. No hosts: yes."""
        try:
            view = self.refresher.refresh().view()
        except StoreUnavailable:
            return False
        down_time = self.settings.scheduler.filters.service_down_time_seconds
        return not len(view) or bool((view.now_seconds - view.heartbeat_seconds <= down_time).any())

    def _shadow(self, scheduler: SchedulerSettings | None, settings: Settings) -> Shadow | None:
        if scheduler is None:
            return None
        source = settings.shadow_config_file or ""
        return Shadow(
            registry.load_driver(scheduler), source, self._observer, lambda: bool(self._shadow_off.value)
        )

    def _leave_shadow(self, status: int) -> None:
        LOG.error("the shadow configuration hangs; no worker asks it any more until the next reload")
        self._shadow_off.value = True
        os._exit(status)

    def _facts(self, database: Database) -> FactSource:
        facts: FactSource = SqlFactSource(database)
        trusted = self.settings.scheduler.filters.trusted
        if not trusted.attestation_server:
            return facts
        cache = TrustCache(AttestationServer(trusted), trusted.attestation_auth_timeout_seconds)
        return AttestedFacts(facts, cache, lambda: self.refresher.table.view().nodes)

    # In the loop's thread

    def _end_batch(self) -> None:
        self._turn()
        self._watching_store(self.manager.end_batch)

    def _idle(self) -> None:
        self._turn()
        self._watching_store(self.batch.idle)

    def _watching_store(self, work: Callable[[], None]) -> None:
        try:
            work()
        except StoreUnavailable:
            self.store_answers = False
            raise
        self.store_answers = True

    def _turn(self) -> None:
        with self._swap:
            chosen, self._next = self._next, None
        if chosen is not None:
            self.settings, driver, shadow = chosen
            self.batch.configure(driver, self.outbound, self.settings.delivery, shadow)
            self.manager.settings = self.own.settings = self.settings
            if self._upkeep is not None:
                self._upkeep.configure(self.settings)
            LOG.info("deciding with the new settings: %s (%s)", driver.name, ", ".join(driver.plugins()))
        if self._pulse is not None:
            self._pulse(self)

    # For reports and upkeep

    def _error_event(self, request: SchedulingRequest, reason: str) -> Event:
        return self.outbound.of(request).error(request.instances[0], reason, datetime.now(UTC))

    def _terminate(self, host: str, uuid: str) -> None:
        self.publisher.publish([self.outbound.terminate(host, uuid, SYSTEM_CONTEXT)])
