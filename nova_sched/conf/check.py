"""What is odd about a configuration that would start: questions an operator would be asked on the telephone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from oslo_config import cfg

from nova_sched.conf import opts
from nova_sched.conf.files import written_options
from nova_sched.conf.section import option_name
from nova_sched.settings import Settings

GROUP_FILTERS = ("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter")


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark with its remedy."""

    option: str
    remark: str


def findings(conf: cfg.ConfigOpts, settings: Settings) -> list[Finding]:
    """All remarks about a parsed and built configuration; empty when there is nothing to say."""
    return [*_misspelt(conf), *_filters(settings), *_bus(conf, settings)]


def _misspelt(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    """Names in our own groups that no option has, and near misses in ``[DEFAULT]``, which is shared with Nova."""
    known: dict[str, set[str]] = {}
    for section in opts.SECTIONS:
        for _, group, opt in section:
            known.setdefault(group, set()).update((opt.name, opt.dest))
            for alias in opt.deprecated_opts:
                known.setdefault(alias.group or "DEFAULT", set()).add(str(alias.name))
    own = {"delivery", "retention", "health", "agent", "plugins"}
    registered = set(conf)
    for group, name in written_options(conf):
        if name in known.get(group, ()) or (group == "DEFAULT" and name in registered):
            continue
        near = get_close_matches(name, known.get(group, ()), n=1, cutoff=0.85)
        if group in own or near:
            hint = f"; did you mean {near[0]}?" if near else ""
            yield Finding(option_name(group, name), f"no such option, it has no effect{hint}")


def _filters(settings: Settings) -> Iterator[Finding]:
    filters = settings.scheduler.filters
    missing = [name for name in GROUP_FILTERS if name not in filters.enabled]
    if missing and settings.scheduler.driver.lower().find("chance") < 0:
        effect = "are refused" if settings.scheduler.policy_names_require_filter else "are placed without it"
        yield Finding(
            "scheduler_default_filters",
            f"lacks {', '.join(missing)}: requests for such server groups {effect}",
        )
    if "ComputeFilter" not in filters.enabled:
        yield Finding(
            "scheduler_default_filters", "lacks ComputeFilter: hosts that are down or disabled get guests"
        )
    if "TrustedFilter" in filters.enabled and not filters.trusted.attestation_server:
        yield Finding("trusted_computing.attestation_server", "is not set though TrustedFilter is enabled")
    if filters.trusted.attestation_insecure_ssl:
        yield Finding(
            "trusted_computing.attestation_insecure_ssl",
            "believes whoever answers; set a CA file in its place",
        )


def _bus(conf: cfg.ConfigOpts, settings: Settings) -> Iterator[Finding]:
    drivers = settings.bus.notification_drivers
    if not drivers or drivers == ("noop",):
        yield Finding(
            "oslo_messaging_notifications.driver", "sends no notifications: nobody hears of refusals"
        )
    rabbit = conf.oslo_messaging_rabbit
    if rabbit.ssl and not rabbit.ssl_ca_file:
        yield Finding(
            "oslo_messaging_rabbit.ssl_ca_file", "is not set: the broker is checked against the system's CAs"
        )
    if settings.database.connection.startswith("sqlite"):
        yield Finding("database.connection", "is SQLite: good for the schedulers of one machine only")
