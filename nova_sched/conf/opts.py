"""All options of the service, and the libraries' that it reads."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points

from oslo_config import cfg
from oslo_service.backend import BackendType, register_backend_default_hook

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

LIBRARIES = ("oslo.messaging", "oslo.reports")
"""Names under the entry points ``oslo.config.opts`` whose options belong into the same file (oslo.log comes by itself)."""


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Groups with our own options, for oslo-config-generator and the reference."""
    groups: dict[str, list[cfg.Opt]] = {}
    for section in SECTIONS:
        for group, opts in section.list_opts():
            groups.setdefault(group, []).extend(opts)
    return list(groups.items())


def register_opts(conf: cfg.ConfigOpts, *, libraries: bool = True) -> None:
    """Register our options, the libraries' and the legacy ones; registering again changes nothing.

    :param libraries: False where nothing but settings is wanted: saves importing the libraries.
    """
    if libraries:
        for group, opts in library_opts():
            conf.register_opts(opts, group=group)
        legacy.register_opts(conf)
    for section in SECTIONS:
        section.register_opts(conf, libraries=not libraries)


def set_library_defaults(conf: cfg.ConfigOpts) -> None:
    """Our defaults for the libraries' options; again after each parse, which forgets them."""
    for section in SECTIONS:
        section.set_library_defaults(conf)


@cache
def library_opts() -> tuple[tuple[str | None, list[cfg.Opt]], ...]:
    """Groups with the libraries' options.

    Loading oslo.messaging makes oslo.service choose how it waits: threads are named before. It imports eventlet all
    the same where that is installed, and never uses it; its word about itself is not for our users.
    """
    register_backend_default_hook(lambda: BackendType.THREADING)
    found: list[tuple[str | None, list[cfg.Opt]]] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
        for entry in entry_points(group="oslo.config.opts"):
            if entry.name in LIBRARIES:
                found.extend(entry.load()())
    return tuple(found)
