"""The configuration of a running process: read again on SIGHUP, validated as a whole, then swapped in, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from oslo_config import cfg

from nova_sched.bootstrap import logs
from nova_sched.conf import build, reload
from nova_sched.errors import ConfigurationError
from nova_sched.plugins import registry
from nova_sched.settings import Settings

LOG = logging.getLogger(__name__)


class Reloader:
    """Reads the same files again.

    :param args: command line that named them.
    :ivar settings: those in force.
    """

    def __init__(self, args: Sequence[str], settings: Settings) -> None:
        self._args = list(args)
        self.settings = settings

    def reload(self) -> bool:
        """Take the files' settings where they are valid; True if any that may change has changed.

        A file that is wrong is named once and changes nothing. Log levels are set here, the rest is the caller's.
        """
        conf = cfg.ConfigOpts()
        new = self._read(conf)
        if new is None:
            return False
        changes = reload.diff(self.settings, new)
        for change in changes.reloadable:
            LOG.info("configuration: %s", change)
        if changes.restart:
            LOG.warning("configuration: needs restart: %s", ", ".join(changes.restart))
        logs.apply_levels(conf)
        self.settings = reload.applied(self.settings, new)
        if not changes.reloadable:
            LOG.info("configuration read again, nothing that may change has changed")
        return bool(changes.reloadable)

    def _read(self, conf: cfg.ConfigOpts) -> Settings | None:
        try:
            build.parse(conf, self._args, say=lambda line: None)
            new = build.settings_from(conf)
            registry.load_driver(new.scheduler)
            return new
        except ConfigurationError as error:
            wrong = error
        except Exception:
            LOG.exception("the configuration stays as it is, since a plugin cannot be loaded")
            return None
        # Outside of the handler, where oslo.log would say the error once more.
        LOG.error("the configuration stays as it is, since the file is wrong: %s", wrong)
        return None
