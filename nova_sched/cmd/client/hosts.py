"""``host list`` and ``host show``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from nova_sched.cmd.columns import rows, when
from nova_sched.cmd.console import List, Show
from nova_sched.db.instances import InstanceDirectory
from nova_sched.errors import HostNotFound

_PAGE = 1000
_FIELDS = (
    "host", "node", "state", "vcpus", "used_vcpus", "claimed_vcpus", "memory_mb", "used_memory_mb", "claimed_memory_mb",
    "local_gb", "used_disk_mb", "claimed_disk_mb", "running_vms", "claimed_instances", "heartbeat_at",
)  # fmt: skip
"""Of a host in a format for machines, by the names of ``host show``."""


class ListHosts(List):
    """List hosts with what is in use: reported by the agent plus claims that the report does not contain.

    The table has used+claimed/total in a cell; other formats have each number in a field of its own, as host show.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Paging."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--marker", metavar="HOST", help="begin after this host")
        parser.add_argument(
            "--limit", type=int, default=_PAGE, metavar="N", help="at most this many (default: 1000)"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """One row per node."""
        settings = self.app.connections.settings
        directory = InstanceDirectory(self.app.connections.database())
        found = directory.get_hosts(parsed_args.marker, parsed_args.limit)
        down_seconds = settings.scheduler.filters.service_down_time_seconds
        if parsed_args.formatter != "table":
            return _FIELDS, rows([_shown(host, down_seconds) for host in found], _FIELDS)
        columns = ("Host", "Node", "State", "vCPUs", "RAM MB", "Disk GB", "Guests", "Claims", "Last report")
        return columns, [_row(host, down_seconds) for host in found]


class ShowHost(Show):
    """Show everything known of one host; of a host with several nodes, one object per node. Exits 1 when unknown."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Arguments HOST and --node."""
        parser = super().get_parser(prog_name)
        parser.add_argument("host")
        parser.add_argument("--node", metavar="NODE", help="which node, where the host has several")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """All columns of the chosen node."""
        nodes = InstanceDirectory(self.app.connections.database()).show_host(parsed_args.host)
        chosen = [node for node in nodes if parsed_args.node in (None, node["node"])]
        if not chosen:
            raise HostNotFound(parsed_args.node or parsed_args.host)
        down_seconds = self.app.connections.settings.scheduler.filters.service_down_time_seconds
        if len(chosen) > 1:
            return [node["node"] for node in chosen], [_shown(node, down_seconds) for node in chosen]
        shown = _shown(chosen[0], down_seconds)
        return list(shown), list(shown.values())


def state_of(host: Mapping[str, Any], down_seconds: float) -> str:
    """``up``, ``down`` or ``disabled`` by the database's clock; a heartbeat from the future counts by its distance."""
    if host["disabled"]:
        return "disabled"
    age = host["heartbeat_age_seconds"]
    return "up" if age is not None and abs(age) <= down_seconds else "down"


def _shown(host: Mapping[str, Any], down_seconds: float) -> dict[str, Any]:
    shown = dict(host)
    shown["heartbeat_at"] = when(host["heartbeat_at"])
    return {"state": state_of(host, down_seconds), **shown}


def _row(host: Mapping[str, Any], down_seconds: float) -> tuple[Any, ...]:
    return (
        host["host"],
        host["node"],
        state_of(host, down_seconds),
        _use(host, "vcpus", "vcpus"),
        _use(host, "memory_mb", "memory_mb"),
        _use(host, "disk_mb", "local_gb", per_total=1024),
        host["running_vms"],
        host["claimed_instances"],
        when(host["heartbeat_at"]),
    )


def _use(host: Mapping[str, Any], amount: str, total: str, per_total: int = 1) -> str:
    """``used+claimed/total`` in the unit of the total; a question mark for what was never reported."""
    used, claimed = host[f"used_{amount}"], host[f"claimed_{amount}"]
    shown_used = "?" if used is None else f"{used / per_total:g}"
    shown_total = "?" if host[total] is None else f"{host[total]:g}"
    return f"{shown_used}+{claimed / per_total:g}/{shown_total}" if claimed else f"{shown_used}/{shown_total}"
