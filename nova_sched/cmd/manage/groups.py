"""``group list/show/create/delete/add-member/remove-member``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from nova_sched.cmd.columns import rows
from nova_sched.cmd.console import Act, Console, List, Show
from nova_sched.db.admin import GroupAdmin
from nova_sched.errors import ServerGroupNotFound

POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
_KEYS = ("uuid", "name", "policies", "members")


def _admin(app: Console) -> GroupAdmin:
    return GroupAdmin(app.connections.database())


def _find(app: Console, name: str) -> Mapping[str, Any]:
    """By uuid, or by name where no uuid is like that."""
    found = _admin(app).list()
    for one in (
        *(one for one in found if one["uuid"] == name),
        *(one for one in found if one["name"] == name),
    ):
        return one
    raise ServerGroupNotFound(name)


class _Named(Act):
    """A command about one group."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Argument GROUP."""
        parser = super().get_parser(prog_name)
        parser.add_argument("group", help="name or uuid")
        return parser


class ListGroups(List):
    """List server groups."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """One row each."""
        return ("ID", "Name", "Policies", "Members"), rows(_admin(self.app).list(), _KEYS)


class ShowGroup(Show):
    """Show one server group. Exits 1 when it is unknown."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Argument GROUP."""
        parser = super().get_parser(prog_name)
        parser.add_argument("group", help="name or uuid")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """All of it."""
        found = _find(self.app, parsed_args.group)
        return list(found), list(found.values())


class Create(Act):
    """Create a server group; requests name it by the hint group=<uuid or name>."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Name, --policy, --uuid, --member."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name")
        parser.add_argument(
            "--policy", action="append", choices=POLICIES, required=True, help="what is enforced"
        )
        parser.add_argument("--uuid", metavar="UUID", help="uuid of the group (default: a fresh one)")
        parser.add_argument("--member", action="append", default=[], metavar="UUID", help="an instance of it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Create it."""
        uuid = _admin(self.app).create(
            parsed_args.name, parsed_args.policy, parsed_args.uuid, parsed_args.member
        )
        self.say(f"group {parsed_args.name} has the uuid {uuid}")


class Delete(_Named):
    """Delete a server group; its members stay where they are."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Delete it."""
        _admin(self.app).delete(parsed_args.group)
        self.say(f"group {parsed_args.group} is deleted")


class AddMember(_Named):
    """Make instances members of a group; where they are now is not changed."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Arguments UUID…."""
        parser = super().get_parser(prog_name)
        parser.add_argument("uuid", nargs="+")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Add all."""
        _admin(self.app).add_members(parsed_args.group, parsed_args.uuid)
        self.say(
            f"group {parsed_args.group} has {len(_find(self.app, parsed_args.group)['members'])} members"
        )


class RemoveMember(_Named):
    """Take instances out of a group; those that are not in it are fine."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Arguments UUID…."""
        parser = super().get_parser(prog_name)
        parser.add_argument("uuid", nargs="+")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Remove all."""
        _admin(self.app).remove_members(parsed_args.group, parsed_args.uuid)
        self.say(
            f"group {parsed_args.group} has {len(_find(self.app, parsed_args.group)['members'])} members"
        )
