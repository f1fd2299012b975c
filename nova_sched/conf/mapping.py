"""Settings from names and values, as decision cases, exports and tests carry them."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from oslo_config import cfg

from nova_sched.conf import build, filters, opts, plugins, scheduler, trusted, weighers
from nova_sched.conf.section import option_name, read
from nova_sched.conf.types import Names, Refused
from nova_sched.errors import ConfigurationError
from nova_sched.settings import Settings

_DECIDING = (scheduler.SECTION, filters.SECTION, weighers.SECTION, trusted.SECTION, plugins.SECTION)


def settings_from_mapping(config: Mapping[str, Any]) -> Settings:
    """Settings with these options set and everything else at its default.

    Hosts may have any ``service_down_time`` here, unless the options say how often agents report.

    :param config: option names of nova.conf, ``group.option`` outside of ``[DEFAULT]``, later names as well; lists as
        sequences or comma texts, ``""`` is the empty list. Names that no option has are kept in ``extras``.
    :raises ConfigurationError: as :func:`~nova_sched.conf.build.settings_from`.
    """
    conf = cfg.ConfigOpts()
    opts.register_opts(conf, libraries=False)
    conf([], default_config_files=[], default_config_dirs=[])
    known = _known()
    extras: dict[str, Any] = {}
    for name, value in config.items():
        found = known.get(name.lower())
        if found is None:
            extras[name] = value
            continue
        group, opt = found
        try:
            conf.set_override(opt.dest, _plain(opt, value), group=None if group == "DEFAULT" else group)
        except Refused as refused:
            raise ConfigurationError(name, value, refused.expected) from None
    return build.settings_from(conf, extras, agents="report_interval" in config)


def near_options(name: str) -> list[str]:
    """Names of options that ``name`` may be a slip of; empty when it is one, or like none."""
    known = _known()
    return [] if name.lower() in known else get_close_matches(name.lower(), known, n=3, cutoff=0.85)


def _known() -> dict[str, tuple[str, cfg.Opt]]:
    """Canonical names and aliases."""
    names: dict[str, tuple[str, cfg.Opt]] = {}
    for section in opts.SECTIONS:
        for _, group, opt in section:
            names[option_name(group, opt.name)] = (group, opt)
            for alias in opt.deprecated_opts:
                names.setdefault(option_name(alias.group, alias.name), (group, opt))
    return {name.lower(): found for name, found in names.items()}


def _plain(opt: cfg.Opt, value: Any) -> Any:
    if isinstance(opt.type, Names) or opt.multi:
        return Names()("" if value is None else value)
    return "" if value is None else value


def scheduling_options(conf: cfg.ConfigOpts) -> dict[str, Any]:
    """The options of a parsed ``conf`` that decisions depend on and that are not at their default.

    Names as :func:`settings_from_mapping` reads them; secrets are left out. Raises ConfigurationError.
    """
    found: dict[str, Any] = {}
    for section in _DECIDING:
        for _, group, opt in section:
            value = None if opt.secret else read(conf, group, opt)
            if value is not None and value != opt.default:
                found[option_name(group, opt.name)] = list(value) if isinstance(value, tuple) else value
    return found
