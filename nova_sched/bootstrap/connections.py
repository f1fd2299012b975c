"""What a command line needs of the house, each part made on first use and closed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from nova_sched.conf import build
from nova_sched.settings import Settings

if TYPE_CHECKING:
    from nova_sched.db.engine import Database
    from nova_sched.rpcapi import SchedulerAPI

# The rooms are imported where they are opened: commands that need neither bus nor SQL start in half the time.


class Connections:
    """Configuration, settings and connections of one command.

    :param conf: ``cfg.CONF`` in programs.
    :param args: ``--config-file`` and ``--config-dir`` with their values.
    :ivar legacy: one line per old option that was mapped or has no effect, once ``conf`` was read.
    """

    def __init__(self, conf: cfg.ConfigOpts, args: Sequence[str] = ()) -> None:
        self._unparsed = conf
        self._args = list(args)
        self._closers: list[Callable[[], Any]] = []
        self._checked = False
        self.legacy: list[str] = []

    @cached_property
    def conf(self) -> cfg.ConfigOpts:
        """Parsed configuration. Raises ConfigurationError."""
        return build.parse(self._unparsed, self._args, say=self.legacy.append)

    @cached_property
    def settings(self) -> Settings:
        """Settings. Raises ConfigurationError."""
        return build.settings_from(self.conf)

    @cached_property
    def _database(self) -> Database:
        from nova_sched.db.engine import Database

        database = Database(self.settings.database)
        self._closers.append(database.close)
        return database

    def database(self, *, checked: bool = True) -> Database:
        """The database; ``checked``: its schema is the one this code wants.

        Raises ConfigurationError (with the remedy) and StoreUnavailable.
        """
        if checked and not self._checked:
            from nova_sched.db import schema

            schema.check(self._database)
            self._checked = True
        return self._database

    @cached_property
    def transport(self) -> Any:
        """RPC transport; nothing is connected yet."""
        from nova_sched.bootstrap import transports
        from nova_sched.rpc.transport import close_transport

        transport = transports.rpc_transport(self.conf, self.settings)
        self._closers.append(partial(close_transport, transport))
        return transport

    @cached_property
    def notifications(self) -> Any:
        """Notification transport; nothing is connected yet."""
        from nova_sched.bootstrap import transports
        from nova_sched.rpc.transport import close_transport

        transport = transports.notification_transport(self.conf, self.settings)
        self._closers.append(partial(close_transport, transport))
        return transport

    def scheduler(self, timeout_seconds: float = 60.0) -> SchedulerAPI:
        """Client of the scheduler topic; its methods raise BusUnavailable, and so does this when no broker is there."""
        from nova_sched.rpc.factory import ensure_reachable
        from nova_sched.rpcapi import SchedulerAPI

        ensure_reachable(self.transport)
        return SchedulerAPI(self.transport, self.settings.bus, timeout_seconds)

    def close(self) -> None:
        """Close what was opened, last first."""
        while self._closers:
            self._closers.pop()()
