"""``boot`` and ``select``: ask for hosts."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from nova_sched.cmd.client.requests import NovaRequest, add_order_options, request_from
from nova_sched.cmd.columns import Fault, when
from nova_sched.cmd.console import List
from nova_sched.errors import InstanceNotFound, NoValidHost
from nova_sched.rpcapi import SchedulerAPI

FINAL_STATES = ("active", "error", "deleted")
_COLUMNS = ("ID", "State", "Host", "Node", "Attempt", "Fault")
_LOOK_SECONDS = 0.25
CALL_SECONDS = 60.0


class Boot(List):
    """Ask for instances to be built, as an API service does: a cast that returns when the broker has it.

    With --wait the outcome is shown; exits 1 if an instance ends in ERROR, 3 if not all have ended in time.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Name, what is wanted, --wait."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name", nargs="?", default="instance", help="display name (default: instance)")
        add_order_options(parser)
        parser.add_argument("--admin-password", metavar="TEXT", help="password for the guest")
        parser.add_argument(
            "--wait",
            type=float,
            metavar="SECONDS",
            help="wait this long for every instance to be active or in ERROR",
        )
        parser.add_argument(
            "--resend",
            action="store_true",
            help="the uuids of --file were sent before: ask again (a known attempt is never decided twice)",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """The instances asked for, with what became of them where that was waited for."""
        request = request_from(parsed_args, parsed_args.name)
        waited = CALL_SECONDS if parsed_args.wait is None else min(CALL_SECONDS, max(1.0, parsed_args.wait))
        api = self.app.connections.scheduler(waited)
        api.run_instance(
            request.context,
            request.request_spec,
            parsed_args.admin_password,
            [],
            None,
            not parsed_args.resend,
            request.filter_properties,
            legacy_bdm_in_spec=False,
        )
        if parsed_args.wait is None:
            return ("ID", "State"), [(uuid, "asked for") for uuid in request.uuids]
        found = outcomes(api, request, parsed_args.wait)
        rows = [_row(uuid, found.get(uuid)) for uuid in request.uuids]
        self.defer_exit(_verdict(request, found))
        return _COLUMNS, rows


class Select(List):
    """Ask for destinations without building anything; they stay reserved for a minute. Exits 1 if there are none."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """What is wanted, --timeout."""
        parser = super().get_parser(prog_name)
        add_order_options(parser)
        parser.add_argument(
            "--timeout", type=float, default=60.0, metavar="SECONDS", help="of the call (default: 60)"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """Host, node and limits for each instance, in order."""
        request = request_from(parsed_args)
        api = self.app.connections.scheduler(parsed_args.timeout)
        spec = {**request.request_spec}
        if not parsed_args.file:
            spec["instance_uuids"] = []
        found = api.select_destinations(request.context, spec, request.filter_properties)
        return ("Host", "Node", "Limits"), [(one["host"], one["nodename"], one["limits"]) for one in found]


def outcomes(api: SchedulerAPI, request: NovaRequest, wait_seconds: float) -> dict[str, dict[str, Any]]:
    """What is known of each instance when all have ended or the time is over. Raises BusUnavailable."""
    until = time.monotonic() + wait_seconds
    known: dict[str, dict[str, Any]] = {}
    while True:
        for uuid in request.uuids:
            if known.get(uuid, {}).get("vm_state") not in FINAL_STATES:
                try:
                    known[uuid] = api.get_instance(request.context, uuid)
                except InstanceNotFound:
                    continue
        ended = sum(found["vm_state"] in FINAL_STATES for found in known.values())
        if ended == len(request.uuids) or time.monotonic() >= until:
            return known
        time.sleep(_LOOK_SECONDS)


def _row(uuid: str, found: dict[str, Any] | None) -> tuple[Any, ...]:
    if found is None:
        return uuid, "not scheduled yet", None, None, None, None
    fault = found.get("fault")
    known = tuple(found.get(key) for key in ("uuid", "vm_state", "host", "node", "attempt"))
    return (*known, Fault({**fault, "created_at": when(fault["created_at"])}) if fault else None)


def _verdict(request: NovaRequest, found: dict[str, dict[str, Any]]) -> Exception | None:
    states = [found[uuid]["vm_state"] if uuid in found else None for uuid in request.uuids]
    late = sum(state not in FINAL_STATES for state in states)
    if late:
        return TimeoutError(f"{late} of {len(states)} instances have not ended in time")
    failed = sum(state != "active" for state in states)
    return NoValidHost(f"{failed} of {len(states)} instances ended in ERROR") if failed else None
