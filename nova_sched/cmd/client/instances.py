"""``instance list``, ``instance show`` and ``instance delete``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from nova_sched.cmd.arguments import uuid_text
from nova_sched.cmd.client.requests import context_of
from nova_sched.cmd.columns import rows, when
from nova_sched.cmd.console import Act, List, Show
from nova_sched.db.instances import InstanceDirectory

_KEYS = ("uuid", "display_name", "vm_state", "task_state", "host", "node", "attempt")
_TIMES = ("created_at", "updated_at", "deleted_at")


class ListInstances(List):
    """List instances that the scheduler knows, by uuid."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Choices and paging."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", metavar="HOST", help="only those on this host")
        parser.add_argument(
            "--state", metavar="STATE", help="only those in this vm_state (building, active, error)"
        )
        parser.add_argument("--project", metavar="ID", help="only those of this project")
        parser.add_argument("--deleted", action="store_true", help="tombstones as well")
        parser.add_argument("--marker", metavar="UUID", help="begin after this uuid")
        parser.add_argument(
            "--limit", type=int, default=1000, metavar="N", help="at most this many (default: 1000)"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """One row per instance."""
        found = InstanceDirectory(self.app.connections.database()).list_instances(
            marker=parsed_args.marker,
            limit=parsed_args.limit,
            host=parsed_args.host,
            vm_state=parsed_args.state,
            project_id=parsed_args.project,
            deleted=parsed_args.deleted,
        )
        return ("ID", "Name", "State", "Task", "Host", "Node", "Attempt"), rows(found, _KEYS)


class ShowInstance(Show):
    """Show one instance with its faults and events. Exits 1 when it is unknown."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Argument UUID."""
        parser = super().get_parser(prog_name)
        parser.add_argument("uuid")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """All that is kept."""
        found = InstanceDirectory(self.app.connections.database()).show_instance(parsed_args.uuid)
        shown = {key: when(value) if key in _TIMES else value for key, value in found.items()}
        shown["faults"] = [_fault(fault) for fault in found["faults"]]
        shown["events"] = [_event(event) for event in found["events"]]
        return list(shown), list(shown.values())


class DeleteInstance(Act):
    """Say that instances are no longer wanted, at whatever step they are: their claims end, late casts are dropped."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Arguments UUID…."""
        parser = super().get_parser(prog_name)
        parser.add_argument("uuid", nargs="+", type=uuid_text)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Cast one deletion each."""
        api = self.app.connections.scheduler()
        for uuid in parsed_args.uuid:
            api.delete_instance(context_of(), uuid)
            self.say(f"deletion of {uuid} was asked for")


def _fault(fault: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "attempt": fault["attempt"],
        "code": fault["code"],
        "message": fault["message"],
        "created_at": when(fault["created_at"]),
    }


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "event": event["event"],
        "attempt": event["attempt"],
        "result": event["result"],
        "host": event["host"],
        "request_id": event["request_id"],
        "decision_id": event["decision_id"],
        "started_at": when(event["started_at"]),
        "finished_at": when(event["finished_at"]),
    }
