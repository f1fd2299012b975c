"""What changes with a new configuration file while the service runs, and what waits for a restart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nova_sched.conf.opts import SECTIONS
from nova_sched.conf.section import option_name
from nova_sched.settings import PluginSettings, SchedulerSettings, Settings, TrustedSettings

_AT_START_ONLY = frozenset({PluginSettings, TrustedSettings})
"""Parts of the scheduler's settings that are built into things made once: imports, the watchdog, the trust cache."""
_ALSO_RELOADABLE = frozenset({(Settings, "shadow_config_file")})


@dataclass(frozen=True, slots=True)
class Change:
    """One option with another value, by its name in the file."""

    option: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.option}: {self.old!r} -> {self.new!r}"


@dataclass(frozen=True, slots=True)
class Changes:
    """What two settings differ in.

    :ivar reloadable: takes effect with the next batch: driver, filters, weighers, ratios, multipliers, attempts.
    :ivar restart: names of options that are read at start only. Without values, some of which are secrets.
    """

    reloadable: tuple[Change, ...]
    restart: tuple[str, ...]


def diff(old: Settings, new: Settings) -> Changes:
    """Compare two settings option by option."""
    reloadable: list[Change] = []
    restart: list[str] = []
    for owner, field, before, after in _differences(old, new):
        name = _OPTION_NAMES.get((owner, field), field)
        if owner in _RELOADABLE or (owner, field) in _ALSO_RELOADABLE:
            reloadable.append(Change(name, before, after))
        else:
            restart.append(name)
    return Changes(tuple(reloadable), tuple(restart))


def applied(old: Settings, new: Settings) -> Settings:
    """``old`` with what may change while running taken from ``new``."""
    scheduler = dataclasses.replace(
        new.scheduler,
        plugins=old.scheduler.plugins,
        filters=dataclasses.replace(new.scheduler.filters, trusted=old.scheduler.filters.trusted),
    )
    return dataclasses.replace(old, scheduler=scheduler, shadow_config_file=new.shadow_config_file)


def _differences(old: Any, new: Any) -> Iterator[tuple[type, str, Any, Any]]:
    for field in dataclasses.fields(old):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if dataclasses.is_dataclass(before):
            yield from _differences(before, after)
        elif before != after:
            yield type(old), field.name, before, after


def _nested(settings: type) -> Iterator[type]:
    yield settings
    for field in dataclasses.fields(settings):
        if dataclasses.is_dataclass(field.default):
            yield from _nested(type(field.default))


_RELOADABLE = frozenset(_nested(SchedulerSettings)) - _AT_START_ONLY
_OPTION_NAMES = {
    (section.settings, field): option_name(group, opt.name)
    for section in SECTIONS
    if section.settings is not None
    for field, group, opt in section
}
