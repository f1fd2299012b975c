"""``nova-sched-scheduler``: a parent that forks workers and restarts those that die, and the health port beside them.

::

    parent ── reads and validates the configuration, looks once at the tables, keeps no connection
      ├── scheduler(0) … scheduler(N-1)   consume requests and reports; (0) also does the rounds of upkeep
      └── health(0)                       metrics of all workers, probes, the page

Signals to the parent: SIGTERM drains and ends within ``graceful_shutdown_timeout``; SIGHUP reads the configuration
again; SIGUSR2 writes a report of the process that gets it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version

import cotyledon
from oslo_config import cfg

from nova_sched.bootstrap import gmr, logs
from nova_sched.bootstrap.processes import EXIT_FATAL, HealthProcess, Launch, SchedulerProcess
from nova_sched.bootstrap.reloading import Reloader
from nova_sched.cmd import exits
from nova_sched.conf import build
from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.errors import SchedulerError, StoreUnavailable
from nova_sched.health import folder
from nova_sched.plugins import registry
from nova_sched.settings import DatabaseSettings

LOG = logging.getLogger(__name__)
PROGRAM = "nova-sched-scheduler"
LOOK_SECONDS = 3
"""The parent gives an SQL server that is away so long, then starts workers that wait for it."""


def main(argv: Sequence[str] | None = None, conf: cfg.ConfigOpts | None = None) -> int:
    """Run the daemon until it is told to stop; the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(exits.YES))
    args = list(sys.argv[1:] if argv is None else argv)
    conf = cfg.CONF if conf is None else conf
    said: list[str] = []
    try:
        build.parse(conf, args, prog=PROGRAM, say=said.append)
        settings = build.settings_from(conf)
        registry.load_driver(settings.scheduler)
        _look_at_tables(settings.database)
        reloader = Reloader(args, settings)
        logs.setup(conf, version("nova_sched"))
    except SchedulerError as error:
        print(f"{PROGRAM}: {exits.one_line(error)}", file=sys.stderr)
        return exits.exit_code(error)
    for line in said:
        LOG.warning("%s", line)
    gmr.setup(conf)
    return _Daemon(Launch(conf, reloader)).run()


def _look_at_tables(settings: DatabaseSettings) -> None:
    """Refuse tables that are not ours here, once, instead of in every worker; one that is away is waited for there."""
    database = Database(settings, connect_timeout_seconds=LOOK_SECONDS)
    try:
        schema.check(database)
    except StoreUnavailable:
        pass
    finally:
        database.close()


class _Daemon:
    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._fatal = False
        settings = launch.reloader.settings
        self._health = settings.health.enabled
        if self._health:
            folder.make_folder()
        # Workers wait up to the time-out for their batch; the parent waits a little longer for them.
        timeout = settings.graceful_shutdown_timeout_seconds
        self._manager = cotyledon.ServiceManager(graceful_shutdown_timeout=timeout + 5 if timeout else 0)
        self._manager.add(SchedulerProcess, workers=settings.workers, args=(launch,))
        if self._health:
            self._manager.add(HealthProcess, workers=1, args=(launch,))
        self._manager.register_hooks(on_reload=self._reload, on_dead_worker=self._dead)

    def run(self) -> int:
        """Supervise until SIGTERM, or until a worker says that no restart will help."""
        LOG.info("%s %s starts", PROGRAM, version("nova_sched"))
        try:
            self._manager.run()
        except SystemExit as stop:
            return exits.USAGE if self._fatal else int(stop.code or 0)
        return exits.YES

    def _reload(self) -> None:
        """In the parent: workers forked from now on begin with the new settings."""
        self._launch.reloader.reload()

    def _dead(self, service_id: object, worker_id: int, exit_code: int) -> None:
        if exit_code == EXIT_FATAL and not self._fatal:
            self._fatal = True
            LOG.error("a worker cannot start and no restart will help; stopping")
            os.kill(os.getpid(), signal.SIGTERM)
