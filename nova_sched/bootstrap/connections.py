"""What a command line needs of the house, each part made on first use and closed once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from oslo_config import cfg

from nova_sched.conf import build
from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.settings import Settings


class Connections:
    """Configuration, settings and connections of one command.

    :param conf: ``cfg.CONF`` in programs.
    :param args: ``--config-file`` and ``--config-dir`` with their values.
    :ivar legacy: one line per old option that was mapped or has no effect, once ``conf`` was read.
    """

    def __init__(self, conf: cfg.ConfigOpts, args: Sequence[str] = ()) -> None:
        self._unparsed = conf
        self._args = list(args)
        self._database: Database | None = None
        self.legacy: list[str] = []

    @cached_property
    def conf(self) -> cfg.ConfigOpts:
        """Parsed configuration. Raises ConfigurationError."""
        return build.parse(self._unparsed, self._args, say=self.legacy.append)

    @cached_property
    def settings(self) -> Settings:
        """Settings. Raises ConfigurationError."""
        return build.settings_from(self.conf)

    def database(self, *, checked: bool = True) -> Database:
        """The database; ``checked``: its schema is the one this code wants.

        Raises ConfigurationError (with the remedy) and StoreUnavailable.
        """
        if self._database is None:
            self._database = Database(self.settings.database)
        if checked:
            schema.check(self._database)
        return self._database

    def close(self) -> None:
        """Close what was opened."""
        if self._database is not None:
            self._database.close()
            self._database = None
