"""The configuration of a running process: read again on SIGHUP, validated as a whole, then swapped in, or not at all."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from nova_sched.bootstrap import logs
from nova_sched.conf import build, reload
from nova_sched.errors import ConfigurationError
from nova_sched.plugins import registry
from nova_sched.settings import SchedulerSettings, Settings

LOG = logging.getLogger(__name__)


class Reloader:
    """Reads the same files again.

    :param args: command line that named them.
    :ivar settings: those in force.
    :ivar shadow: those of the shadow configuration, None without one.
    :ivar shadow_off: shared by the parent and its workers: the shadow hung one of them, none asks it any more.
    :ivar refused: the latest reload met a wrong file and changed nothing.
    """

    def __init__(self, args: Sequence[str], settings: Settings) -> None:
        """Raises ConfigurationError for a wrong shadow file."""
        self._args = list(args)
        self.settings = settings
        self.shadow = self._read_shadow(settings)
        self.shadow_off: Any = multiprocessing.Value(ctypes.c_bool, False, lock=False)
        self.refused = False

    def reload(self) -> bool:
        """Take the files' settings where they are valid; True if any that may change has changed.

        A file that is wrong is named once and changes nothing. Log levels are set here, the rest is the caller's.
        """
        conf = cfg.ConfigOpts()
        read = self._read(conf)
        self.refused = read is None
        if read is None:
            return False
        new, shadow = read
        changes = reload.diff(self.settings, new)
        for change in changes.reloadable:
            LOG.info("configuration: %s", change)
        if changes.restart:
            LOG.warning("configuration: needs restart: %s", ", ".join(changes.restart))
        logs.apply_levels(conf)
        shadowed = shadow != self.shadow
        if shadowed:
            LOG.info(
                "configuration: the shadow %s", "ends" if shadow is None else "decides with new settings"
            )
        self.shadow = shadow
        self.shadow_off.value = False
        self.settings = reload.applied(self.settings, new)
        if not changes.reloadable and not shadowed:
            LOG.info("configuration read again, nothing that may change has changed")
        return bool(changes.reloadable) or shadowed

    def _read_shadow(self, settings: Settings) -> SchedulerSettings | None:
        """The shadow's settings: the same files with the shadow's on top of them. Raises ConfigurationError."""
        if settings.shadow_config_file is None:
            return None
        conf = cfg.ConfigOpts()
        try:
            build.parse(
                conf, [*self._args, "--config-file", settings.shadow_config_file], say=lambda line: None
            )
            found = build.settings_from(conf).scheduler
            registry.load_driver(found)
        except ConfigurationError as error:
            raise ConfigurationError(
                "scheduler.shadow_config_file", settings.shadow_config_file, f"a valid file ({error})"
            ) from error
        return found

    def _read(self, conf: cfg.ConfigOpts) -> tuple[Settings, SchedulerSettings | None] | None:
        try:
            build.parse(conf, self._args, say=lambda line: None)
            new = build.settings_from(conf)
            registry.load_driver(new.scheduler)
            return new, self._read_shadow(new)
        except ConfigurationError as error:
            wrong = error
        except Exception:
            LOG.exception("the configuration stays as it is, since a plugin cannot be loaded")
            return None
        # Outside of the handler, where oslo.log would say the error once more.
        LOG.error("the configuration stays as it is, since the file is wrong: %s", wrong)
        return None
