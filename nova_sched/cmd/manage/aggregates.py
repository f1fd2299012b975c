"""``aggregate list/show/create/delete/add-host/remove-host/set``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from nova_sched.cmd.arguments import pairs
from nova_sched.cmd.columns import rows
from nova_sched.cmd.console import Act, Console, List, Show
from nova_sched.cmd.exits import UsageError
from nova_sched.db.admin import AggregateAdmin
from nova_sched.errors import AggregateNotFound

_KEYS = ("id", "name", "hosts", "metadata")


def _admin(app: Console) -> AggregateAdmin:
    return AggregateAdmin(app.connections.database())


def _find(app: Console, name: str) -> Mapping[str, Any]:
    """By name, or by id where no name is like that."""
    found = _admin(app).list()
    for one in (
        *(one for one in found if one["name"] == name),
        *(one for one in found if str(one["id"]) == name),
    ):
        return one
    raise AggregateNotFound(name)


def _add_metadata(parser: argparse.ArgumentParser) -> None:
    """KEY=VALUE as nova's own client takes it, and --property as OpenStack's."""
    parser.add_argument("metadata", nargs="*", metavar="KEY=VALUE", help="metadata to set")
    parser.add_argument(
        "--property", action="append", default=[], metavar="KEY=VALUE", help="the same as an option"
    )


class _Named(Act):
    """A command about one aggregate."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Argument AGGREGATE."""
        parser = super().get_parser(prog_name)
        parser.add_argument("aggregate", help="name or id")
        return parser


class ListAggregates(List):
    """List aggregates with their hosts and metadata."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """One row each."""
        return ("ID", "Name", "Hosts", "Metadata"), rows(_admin(self.app).list(), _KEYS)


class ShowAggregate(Show):
    """Show one aggregate; hosts that no service has reported are named. Exits 1 when it is unknown."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Argument AGGREGATE."""
        parser = super().get_parser(prog_name)
        parser.add_argument("aggregate", help="name or id")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """All of it."""
        found = _find(self.app, parsed_args.aggregate)
        return list(found), list(found.values())


class Create(Act):
    """Create an aggregate, with hosts and metadata where given."""

    intermixed = True
    """KEY=VALUE may stand behind options as well, see :class:`~nova_sched.cmd.console.Console`."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Name, metadata, --zone, --property, --host."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name")
        _add_metadata(parser)
        parser.add_argument("--zone", metavar="NAME", help="availability zone of its hosts")
        parser.add_argument("--host", action="append", default=[], metavar="HOST", help="a host of it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Create it."""
        metadata = pairs([*parsed_args.metadata, *parsed_args.property])
        if parsed_args.zone:
            metadata["availability_zone"] = parsed_args.zone
        if any(one["name"] == parsed_args.name for one in _admin(self.app).list()):
            raise UsageError(
                f"there is an aggregate {parsed_args.name} already; aggregate set and add-host change it"
            )
        aggregate_id = _admin(self.app).create(parsed_args.name, metadata, parsed_args.host)
        self.say(f"aggregate {parsed_args.name} has the id {aggregate_id}")


class Delete(_Named):
    """Delete an aggregate; its hosts stay, without its zone and ratios."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Delete it."""
        name = _find(self.app, parsed_args.aggregate)["name"]
        _admin(self.app).delete(name)
        self.say(f"aggregate {name} is deleted")


class AddHost(_Named):
    """Put hosts into an aggregate; putting one in twice changes nothing."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Arguments HOST…."""
        parser = super().get_parser(prog_name)
        parser.add_argument("host", nargs="+")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Add each."""
        name = _find(self.app, parsed_args.aggregate)["name"]
        for host in parsed_args.host:
            _admin(self.app).add_host(name, host)
        unknown = sorted(set(_find(self.app, name)["unknown_hosts"]) & set(parsed_args.host))
        self.say(f"aggregate {name} has {', '.join(parsed_args.host)}")
        if unknown:
            self.app.complain(
                f"no service has reported as {', '.join(unknown)} yet; names are compared exactly"
            )


class RemoveHost(_Named):
    """Take hosts out of an aggregate. Exits 1 when one is not in it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Arguments HOST…."""
        parser = super().get_parser(prog_name)
        parser.add_argument("host", nargs="+")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Remove each."""
        name = _find(self.app, parsed_args.aggregate)["name"]
        for host in parsed_args.host:
            _admin(self.app).remove_host(name, host)
        self.say(f"aggregate {name} has lost {', '.join(parsed_args.host)}")


class SetMetadata(_Named):
    """Set metadata of an aggregate: availability_zone, cpu_allocation_ratio, filter_tenant_id, …"""

    intermixed = True
    """KEY=VALUE may stand behind options as well, see :class:`~nova_sched.cmd.console.Console`."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Metadata, --zone, --property and --unset."""
        parser = super().get_parser(prog_name)
        _add_metadata(parser)
        parser.add_argument("--zone", metavar="NAME", help="availability zone of its hosts")
        parser.add_argument("--unset", action="append", default=[], metavar="KEY", help="remove this key")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Set and remove."""
        given = pairs([*parsed_args.metadata, *parsed_args.property])
        changes: dict[str, str | None] = {**given, **dict.fromkeys(parsed_args.unset)}
        if parsed_args.zone:
            changes["availability_zone"] = parsed_args.zone
        if not changes:
            raise UsageError("nothing to set: KEY=VALUE, --zone or --unset")
        name = _find(self.app, parsed_args.aggregate)["name"]
        _admin(self.app).set_metadata(name, changes)
        self.say(f"aggregate {name} has {_find(self.app, name)['metadata']}")
