"""What changes with a new configuration file while the service runs, and what waits for a restart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nova_sched.conf.opts import SECTIONS
from nova_sched.conf.section import option_name
from nova_sched.settings import PluginSettings, SchedulerSettings, Settings

_AT_START_ONLY = frozenset({(PluginSettings, "nova_imports")})
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
        if (owner in _RELOADABLE and (owner, field) not in _AT_START_ONLY) or (
            owner,
            field,
        ) in _ALSO_RELOADABLE:
            secret = not _is_shown(owner, field)
            reloadable.append(Change(name, *(("***", "***") if secret else (before, after))))
        else:
            restart.append(name)
    return Changes(tuple(reloadable), tuple(restart))


def applied(old: Settings, new: Settings) -> Settings:
    """``old`` with what may change while running taken from ``new``."""
    plugins = dataclasses.replace(new.scheduler.plugins, nova_imports=old.scheduler.plugins.nova_imports)
    return dataclasses.replace(
        old,
        scheduler=dataclasses.replace(new.scheduler, plugins=plugins),
        shadow_config_file=new.shadow_config_file,
    )


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


def _is_shown(owner: type, field: str) -> bool:
    return next(f.repr for f in dataclasses.fields(owner) if f.name == field)


_RELOADABLE = frozenset(_nested(SchedulerSettings))
_OPTION_NAMES = {
    (section.settings, field): option_name(group, opt.name)
    for section in SECTIONS
    if section.settings is not None
    for field, group, opt in section
}
