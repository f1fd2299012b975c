"""From configuration files to one frozen :class:`~nova_sched.settings.Settings`."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_sched.conf import (
    agent,
    bus,
    database,
    delivery,
    filters,
    health,
    legacy,
    opts,
    plugins,
    retention,
    scheduler,
    trusted,
    weighers,
)
from nova_sched.conf.files import values_of_groups
from nova_sched.errors import ConfigurationError
from nova_sched.settings import (
    AgentSettings,
    BusSettings,
    DatabaseSettings,
    DeliverySettings,
    FilterSettings,
    HealthSettings,
    PluginSettings,
    RetentionSettings,
    SchedulerSettings,
    Settings,
    TrustedSettings,
    WeigherSettings,
)

PROJECT = "nova-sched"
COMPUTE_RELEASES: Mapping[str, str | None] = {
    "auto": None,
    "icehouse": "3.23",
    "juno": "3.35",
    "kilo": "3.40",
}
SCHEDULER_RELEASES: Mapping[str, str | None] = {"auto": None, "icehouse": "3.0", "juno": "3.0", "kilo": "3.0"}


def parse(
    conf: cfg.ConfigOpts,
    args: Sequence[str] = (),
    *,
    files: Sequence[str] | None = None,
    prog: str = PROJECT,
    say: Callable[[str], None] | None = None,
    with_host: bool = False,
) -> cfg.ConfigOpts:
    """Read files and command line into ``conf``, with legacy options mapped.

    :param conf: ``cfg.CONF`` at the composition root; a private object only where nothing opens a transport with it.
    :param args: command line, e.g. ``["--config-file", "/etc/nova/nova.conf"]``.
    :param files: configuration files when the command line names none; None: the usual places (``/etc/nova-sched``, …).
    :param prog: name of the program in usage texts.
    :param say: takes one line per legacy option.
    :param with_host: the command line takes ``--host``, for programs of which several run on one machine.
    :raises ConfigurationError: a file is missing or broken, or a legacy option cannot be mapped.
    :raises SystemExit: ``--help`` and ``--version`` have been answered, or one line says what is wrong with ``args``.
    """
    conf.reset()
    log.register_options(conf)
    if with_host:
        conf.register_cli_opt(bus.SECTION.option("host"))
    opts.register_opts(conf)
    defaults = {"default_config_files": list(files)} if files is not None else {"project": PROJECT}
    try:
        with _one_line(prog):
            conf(list(args), prog=prog, version=f"{prog} {version('nova_sched')}", **defaults)
    except cfg.ConfigFilesNotFoundError as error:
        raise ConfigurationError(
            "--config-file", ", ".join(error.config_files), "files that can be read"
        ) from None
    except cfg.ConfigFilesPermissionDeniedError as error:
        raise ConfigurationError(
            "--config-file", ", ".join(error.config_files), "files that may be read"
        ) from None
    except cfg.ConfigFileParseError as error:
        raise ConfigurationError(
            "--config-file", error.config_file, f"options and sections ({error.msg})"
        ) from None
    opts.set_library_defaults(conf)
    legacy.apply(conf, *((say,) if say else ()))
    return conf


@contextmanager
def _one_line(prog: str) -> Iterator[None]:
    """Wrong arguments are told in one line; the parser would say its whole usage before it."""
    said, code = io.StringIO(), None
    try:
        with redirect_stderr(said):
            yield
    except SystemExit as stop:
        code = stop.code
        raise
    finally:
        lines = said.getvalue().splitlines(keepends=True)
        if code:
            lines = [f"{line.rstrip()}; see {prog} --help\n" for line in lines[-1:]]
        sys.stderr.writelines(lines)


def settings_from(
    conf: cfg.ConfigOpts, extras: Mapping[str, Any] = MappingProxyType({}), *, agents: bool = True
) -> Settings:
    """Build the settings of a parsed ``conf``.

    :param extras: plugin options beside those of the groups named in ``[plugins] option_groups``.
    :param agents: whether agents report to these settings, so that their interval must suit ``service_down_time``.
    :raises ConfigurationError: the first option with a wrong value, or two that contradict each other.
    """
    settings = Settings(
        **scheduler.SERVICE.values(conf),
        scheduler=_scheduler(conf),
        delivery=DeliverySettings(**delivery.SECTION.values(conf)),
        bus=_bus(conf),
        database=_database(conf),
        retention=RetentionSettings(**retention.SECTION.values(conf)),
        health=HealthSettings(**health.SECTION.values(conf)),
        agent=AgentSettings(**agent.SECTION.values(conf)),
        extras=MappingProxyType({**_extras(conf), **extras}),
    )
    if agents:
        _check_reports(settings)
    _cross_check(settings)
    _check_tls(conf, settings)
    return settings


def _scheduler(conf: cfg.ConfigOpts) -> SchedulerSettings:
    values = scheduler.SECTION.values(conf)
    values["host_subset_size"] = max(1, values["host_subset_size"])
    return SchedulerSettings(
        **values,
        filters=FilterSettings(
            **filters.SECTION.values(conf), trusted=TrustedSettings(**trusted.SECTION.values(conf))
        ),
        weighers=WeigherSettings(**weighers.SECTION.values(conf)),
        plugins=PluginSettings(**plugins.SECTION.values(conf)),
    )


def _bus(conf: cfg.ConfigOpts) -> BusSettings:
    values = bus.SECTION.values(conf)
    values["notification_drivers"] = tuple(legacy.notifier(name) for name in values["notification_drivers"])
    values["compute_version_cap"] = _version(
        "upgrade_levels.compute", values["compute_version_cap"], COMPUTE_RELEASES
    )
    values["scheduler_version_cap"] = _version(
        "upgrade_levels.scheduler", values["scheduler_version_cap"], SCHEDULER_RELEASES
    )
    return BusSettings(**values)


def _database(conf: cfg.ConfigOpts) -> DatabaseSettings:
    values = database.SECTION.values(conf)
    if "://" not in values["connection"]:
        raise ConfigurationError(
            "database.connection", "(not shown)", "a URL as sqlite:///path or mysql+pymysql://…"
        )
    return DatabaseSettings(**values)


def _extras(conf: cfg.ConfigOpts) -> dict[str, Any]:
    groups = plugins.SECTIONS_FOR_PLUGINS.values(conf)["option_groups"]
    return values_of_groups(conf, groups) if groups else {}


def _version(option: str, value: str | None, releases: Mapping[str, str | None]) -> str | None:
    if value is None or value.lower() in releases:
        return releases[value.lower()] if value else None
    if re.fullmatch(r"3\.\d{1,3}", value):
        return value
    raise ConfigurationError(option, value, "3.N, or one of " + ", ".join(releases))


def _check_tls(conf: cfg.ConfigOpts, settings: Settings) -> None:
    if "oslo_messaging_rabbit" not in conf:
        return  # settings from names and values have no broker
    rabbit = conf.oslo_messaging_rabbit
    if rabbit.ssl and not rabbit.ssl_ca_file and not settings.delivery.tls_system_authorities:
        raise ConfigurationError(
            "oslo_messaging_rabbit.ssl_ca_file",
            None,
            "a file with the broker's authority, or [delivery] tls_system_authorities = true for those of this system",
        )


def _check_reports(settings: Settings) -> None:
    interval, down_time = (
        settings.agent.report_interval_seconds,
        settings.scheduler.filters.service_down_time_seconds,
    )
    if interval >= down_time:
        raise ConfigurationError(
            "report_interval",
            interval,
            f"less than service_down_time ({down_time}), or hosts would count as down between reports",
        )


def _cross_check(settings: Settings) -> None:
    if settings.delivery.batch_max > settings.delivery.prefetch:
        raise ConfigurationError(
            "delivery.batch_max",
            settings.delivery.batch_max,
            f"at most delivery.prefetch ({settings.delivery.prefetch})",
        )
