"""State and configuration for commands that answer offline: from an export, or from the database of a service."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

import rich.console
import yaml
from oslo_config import cfg

from nova_sched.cmd.arguments import pairs
from nova_sched.cmd.console import OTHER_CONFIG_FILE, Act, Console
from nova_sched.cmd.exits import UsageError
from nova_sched.conf import build
from nova_sched.conf.mapping import near_options, scheduling_options, settings_from_mapping
from nova_sched.db.decisions import DecisionHistory
from nova_sched.db.export import read_state
from nova_sched.errors import InstanceNotFound
from nova_sched.lab import case as cases
from nova_sched.lab.case import Case
from nova_sched.lab.export import NotRecorded, as_case, recorded_request
from nova_sched.settings import Settings

#: Width of tables where the output is no terminal.
_WIDTH = 100


class Document(Act):
    """Says one structured answer: as tables for people, or whole as JSON or YAML."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The form."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "-f",
            "--format",
            choices=("table", "json", "yaml"),
            default="table",
            help="tables for people (default), or everything as JSON or YAML",
        )
        return parser

    def tables(self) -> rich.console.Console:
        """Where tables are written to: as wide as the terminal, 100 columns where there is none."""
        terminal = self.app.stdout.isatty()
        return rich.console.Console(file=self.app.stdout, width=None if terminal else _WIDTH, highlight=False)

    def dump(self, form: str, answer: Mapping[str, Any]) -> None:
        """Write an answer as ``json`` or ``yaml``."""
        plain = json.dumps(answer, indent=2, ensure_ascii=False, default=str)
        self.say(plain if form == "json" else yaml.safe_dump(json.loads(plain), sort_keys=False).rstrip())


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """``--export``, ``--config-file`` and ``--set``, for commands that ``has_config_file``."""
    parser.add_argument("--export", metavar="FILE", help="ask this export instead of the running service")
    add_config_option(parser, "another nova.conf to ask with")
    parser.add_argument(
        "--set",
        dest="changes",
        metavar="OPTION=VALUE",
        action="append",
        default=[],
        help="change one option, e.g. ram_allocation_ratio=2.0 or scheduler.driver=chance; may be repeated",
    )


def add_config_option(parser: argparse.ArgumentParser, help: str) -> None:
    """``--config-file``, for commands that ``has_config_file``."""
    parser.add_argument(
        "--config-file",
        OTHER_CONFIG_FILE,
        dest="other_config",
        metavar="PATH",
        action="append",
        default=[],
        help=help,
    )


def case_of(app: Console, export: str | None) -> Case:
    """The exported state, or that of the service's database now. Raises BrokenCase, OSError, StoreUnavailable."""
    if export is not None:
        return cases.load(export)
    return cases.parse(state_as_case(app), "service")


def state_as_case(app: Console, name: str = "service", *instances: str) -> dict[str, Any]:
    """The database's state in the case format, with the last requests of these instances.

    Raises StoreUnavailable, InstanceNotFound and NotRecorded.
    """
    requests = [last_request(app, uuid) for uuid in instances]
    state = read_state(app.connections.database())
    return as_case(name, state, scheduling_options(app.connections.conf), requests)


def last_request(app: Console, uuid: str) -> dict[str, Any]:
    """The last request of an instance, from its decision record. Raises InstanceNotFound and NotRecorded."""
    found = DecisionHistory(app.connections.database()).list(uuid, limit=1)
    if not found:
        raise InstanceNotFound(uuid)
    try:
        return recorded_request(uuid, found[0].method, found[0].project_id, found[0].record.get("request"))
    except NotRecorded as missing:
        raise UsageError(str(missing)) from None


def exported_request(case: Case, uuid: str) -> dict[str, Any]:
    """The request of an instance that an export carries. Raises UsageError."""
    for one in case.requests:
        if uuid in (one.request_spec.get("instance_uuids") or ()):
            return {
                "context": one.context,
                "request_spec": one.request_spec,
                "filter_properties": one.filter_properties,
            }
    raise UsageError(
        f"the export has no request of {uuid}; make it with: nova-sched export --instance {uuid}"
    )


def settings_of(case: Case) -> Settings:
    """The configuration of a case. Raises ConfigurationError."""
    return settings_from_mapping(case.config)


def other_settings(case: Case, options: argparse.Namespace) -> Settings | None:
    """The configuration that ``--config-file`` and ``--set`` describe; None without them.

    Raises ConfigurationError and UsageError.
    """
    if not options.other_config and not options.changes:
        return None
    changes = changes_of(options.changes)
    config = file_options(options.other_config) if options.other_config else dict(case.config)
    return settings_from_mapping({**config, **changes})


def changes_of(texts: list[str]) -> dict[str, str]:
    """OPTION=VALUE texts as a mapping. Raises UsageError for what is none, and for a name that looks misspelt."""
    changes = pairs(texts)
    for name in changes:
        if near := near_options(name):
            raise UsageError(f"{name}: no such option; did you mean {', '.join(near)}?")
    return changes


def file_options(paths: list[str]) -> dict[str, Any]:
    """The options that decisions depend on, of these files. Raises ConfigurationError."""
    return scheduling_options(build.parse(cfg.ConfigOpts(), files=paths))
