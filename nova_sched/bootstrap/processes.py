"""The processes below the daemon's parent. Made after the fork, so nothing is shared but what the parent read."""

from __future__ import annotations

import logging
import os
import sys
import threading
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

import cotyledon
from cotyledon.types import WorkerId

from nova_sched.bootstrap import gmr
from nova_sched.bootstrap.crash import crash_point
from nova_sched.bootstrap.pulse import GaugePulse
from nova_sched.bootstrap.reloading import Reloader
from nova_sched.bootstrap.waiting import Stopped
from nova_sched.bootstrap.worker import Worker
from nova_sched.db.engine import Database
from nova_sched.db.snapshot import SqlReads
from nova_sched.errors import ConfigurationError, QueueMismatch
from nova_sched.health.metrics import PrometheusObserver
from nova_sched.health.snapshot import Snapshots
from nova_sched.service.ports import NullObserver, Observer

LOG = logging.getLogger(__name__)

EXIT_FATAL = 78
"""Of a process that no restart will help (EX_CONFIG): the parent stops as well."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What the parent hands to its processes."""

    conf: Any
    reloader: Reloader


class SchedulerProcess(cotyledon.Service):
    """One worker. The process with the number 0 does the rounds of upkeep as well."""

    name: ClassVar[str | None] = "scheduler"

    def __init__(self, worker_id: WorkerId, launch: Launch) -> None:
        super().__init__(worker_id)
        gmr.setup(launch.conf)
        self._reloader = launch.reloader
        settings = launch.reloader.settings
        self._timeout_seconds = settings.graceful_shutdown_timeout_seconds or 86_400
        self._ending = threading.Lock()
        observer = PrometheusObserver() if settings.health.enabled else None
        self._worker = Worker(
            launch.conf,
            settings,
            upkeep=worker_id == 0,
            observer=observer,
            pulse=GaugePulse(observer, version("nova_sched")) if observer is not None else None,
            crash_point=crash_point(),
            name=f"scheduler {os.getpid()}",
            shadow=launch.reloader.shadow,
            shadow_off=launch.reloader.shadow_off,
        )
        self._observer: Observer = observer or NullObserver()

    def run(self) -> None:
        """Serve until told to stop; ends the process with EXIT_FATAL where a restart would not help."""
        hopeless: Exception | None = None
        try:
            self._worker.start()
        except Stopped:
            return
        except (ConfigurationError, QueueMismatch) as error:
            hopeless = error
        if hopeless is not None:
            LOG.error("cannot start: %s", hopeless)
            sys.exit(EXIT_FATAL)

    def terminate(self) -> None:
        """Finish what is in hand, give back the rest."""
        with self._ending:
            finished = self._worker.stop(max(0.5, self._timeout_seconds - 1))
        LOG.info("worker %d has stopped%s", self.worker_id, "" if finished else ", giving messages back")

    def reload(self) -> None:
        """Read the configuration again; a wrong file changes nothing."""
        changed = self._reloader.reload()
        self._observer.count("reloads", result="refused" if self._reloader.refused else "applied")
        if changed:
            self._worker.reload(self._reloader.settings, self._reloader.shadow)


class HealthProcess(cotyledon.Service):
    """Metrics, probes and the page, for all workers."""

    name: ClassVar[str | None] = "health"

    def __init__(self, worker_id: WorkerId, launch: Launch) -> None:
        super().__init__(worker_id)
        gmr.setup(launch.conf)
        self._reloader = launch.reloader
        self._server: Any = None

    def run(self) -> None:
        """Serve; ends the process with EXIT_FATAL when the port is taken."""
        # Imported here: the library must not be loaded before the parent has named the shared folder.
        from nova_sched.health.server import HealthServer

        settings = self._reloader.settings.health
        database = Database(self._reloader.settings.database)
        try:
            self._server = HealthServer(settings, snapshot=Snapshots(self._reads(database)))
        except OSError as error:
            LOG.error(
                "cannot listen on %s port %d (health): %s", settings.bind, settings.port, error.strerror
            )
            sys.exit(EXIT_FATAL)
        self._server.start()
        LOG.info("metrics, probes and page on http://%s:%d/", settings.bind, self._server.port)

    def _reads(self, database: Database) -> SqlReads:
        return SqlReads(database, lambda: self._reloader.settings.scheduler.filters)

    def terminate(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.stop()

    def reload(self) -> None:
        """Only log levels may change here."""
        self._reloader.reload()
