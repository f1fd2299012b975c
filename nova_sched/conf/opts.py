"""All options of the service, and the libraries' that it reads."""

from __future__ import annotations

from oslo_config import cfg
from oslo_reports import opts as reports

from nova_sched.conf import (
    agent,
    bus,
    database,
    delivery,
    filters,
    health,
    legacy,
    plugins,
    retention,
    scheduler,
    trusted,
    weighers,
)
from nova_sched.conf.section import Section

SECTIONS: tuple[Section, ...] = (
    scheduler.SECTION,
    scheduler.SERVICE,
    filters.SECTION,
    weighers.SECTION,
    trusted.SECTION,
    plugins.SECTION,
    plugins.SECTIONS_FOR_PLUGINS,
    delivery.SECTION,
    bus.SECTION,
    bus.MACHINE,
    database.SECTION,
    retention.SECTION,
    health.SECTION,
    agent.SECTION,
)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Groups with our own options, for oslo-config-generator and the reference."""
    groups: dict[str, list[cfg.Opt]] = {}
    for section in SECTIONS:
        for group, opts in section.list_opts():
            groups.setdefault(group, []).extend(opts)
    return list(groups.items())


def set_defaults() -> None:
    """Our defaults for the libraries' options, for oslo-config-generator and the reference."""
    from nova_sched.rpc.transport import shared_options

    changed = {opt.dest: opt.default for section in SECTIONS for opt in section.foreign()}
    cfg.set_defaults(shared_options(), amqp_durable_queues=True, **changed)


def register_opts(conf: cfg.ConfigOpts, *, libraries: bool = True) -> None:
    """Register our options, the libraries' and the legacy ones; registering again changes nothing.

    :param libraries: False where nothing but settings is wanted: saves importing the libraries.
    """
    if libraries:
        # Imported here, because settings alone should not cost the import of the bus.
        from nova_sched.rpc.transport import register_options

        register_options(conf)
        for group, options in reports.list_opts():
            conf.register_opts(options, group=group)
        legacy.register_opts(conf)
    for section in SECTIONS:
        section.register_opts(conf, libraries=not libraries)


def set_library_defaults(conf: cfg.ConfigOpts) -> None:
    """Our defaults for the libraries' options; again after each parse, which forgets them."""
    for section in SECTIONS:
        section.set_library_defaults(conf)
