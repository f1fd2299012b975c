"""The frame of both command lines: global options, lazily made connections, exit codes, output formats."""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import itertools
import logging
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import IO, Any, NoReturn, TextIO

from cliff.app import App
from cliff.command import Command
from cliff.commandmanager import CommandManager
from cliff.formatters.base import SingleFormatter
from cliff.help import HelpExit
from cliff.lister import Lister
from cliff.show import ShowOne
from oslo_config import cfg

from nova_sched.bootstrap.connections import Connections
from nova_sched.cmd import exits
from nova_sched.cmd.columns import presentable

#: What a command calls its own ``--config-file`` as well, see :meth:`Console._leave_to_command`.
OTHER_CONFIG_FILE = "--other-config-file"
_WITH_VALUE = ("--config-file", "--config-dir", "--log-file")


class Console(App):
    """A cliff application whose commands raise and whose exit codes mean something.

    :ivar connections: settings, store and RPC client, each made on first use.
    """

    def __init__(
        self,
        description: str,
        namespace: str,
        name: str,
        conf: cfg.ConfigOpts | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        self._conf = conf
        super().__init__(
            description=description,
            version=importlib.metadata.version("nova_sched"),
            command_manager=CommandManager(namespace),
            stdout=stdout,
            deferred_help=True,
        )
        self.NAME = self.parser.prog = name

    def build_option_parser(
        self, description: str | None, version: str | None, argparse_kwargs: Any = None
    ) -> argparse.ArgumentParser:
        """Global options, before the command's name."""
        parser: argparse.ArgumentParser = super().build_option_parser(description, version, argparse_kwargs)
        self._complain_shortly(parser, None)
        parser.add_argument(
            "--config-file",
            metavar="PATH",
            action="append",
            default=[],
            help="nova.conf to read, may be given several times (default: /etc/nova-sched/nova-sched.conf and the like)",
        )
        parser.add_argument(
            "--config-dir", metavar="DIR", action="append", default=[], help="folder of *.conf files"
        )
        return parser

    def initialize_app(self, argv: list[str]) -> None:
        """Prepare the connections; nothing is read or opened yet."""
        args = [word for path in self.options.config_file for word in ("--config-file", path)]
        args += [word for path in self.options.config_dir for word in ("--config-dir", path)]
        self.connections = Connections(self._conf if self._conf is not None else cfg.CONF, args)

    def configure_logging(self) -> None:
        """Our own handler does it, from :meth:`run` on and no longer."""

    def run(self, argv: list[str]) -> int:
        """Run one command line; warnings of libraries show only with ``-v``."""
        handler = logging.StreamHandler(self.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        root = logging.getLogger()
        root.addHandler(handler)
        self._handler = handler
        try:
            code = int(super().run(self._leave_to_command(argv)))
            return exits.YES if self.interactive_mode else code
        finally:
            root.removeHandler(handler)

    def _leave_to_command(self, argv: Sequence[str]) -> list[str]:
        """The words, with a --config-file behind a command that has one of its own kept from the global one.

        cliff reads global options wherever they stand.
        """
        words = list(argv)
        begin = _first_word(words)
        try:
            factory = self.command_manager.find_command(words[begin:])[0]
        except ValueError:
            return words
        if not getattr(factory, "has_config_file", False):
            return words
        mine = [
            OTHER_CONFIG_FILE + word.removeprefix("--config-file") if _names_file(word) else word
            for word in words
        ]
        return words[:begin] + mine[begin:]

    def interact(self) -> None:
        """Without a command: help, instead of cliff's shell."""
        self.run_subcommand(["help"])

    def run_subcommand(self, argv: list[str]) -> int:
        """Run one command and turn what it raised into a line and an exit code."""
        self._handler.setLevel(_level(self.options))
        try:
            factory, name, rest = self.command_manager.find_command(argv)
        except ValueError:
            self.complain(self._no_command(argv))
            return exits.USAGE
        try:
            command = factory(self, self.options, cmd_name=name)
            parser = command.get_parser(f"{self.NAME} {name}")
            self._complain_shortly(parser, name)
            mixed = getattr(factory, "intermixed", False)
            parsed = parser.parse_intermixed_args(rest) if mixed else parser.parse_args(rest)
            return int(command.run(parsed) or 0)
        except HelpExit:
            return exits.YES
        except (BrokenPipeError, KeyboardInterrupt):
            raise
        except Exception as error:
            if self.options.debug:
                logging.getLogger(__name__).exception("the command ended with this")
            self.complain(exits.one_line(error))
            return exits.exit_code(error)
        finally:
            self.connections.close()

    def _no_command(self, argv: Sequence[str]) -> str:
        """That there is no such command, and those that look like it: spelt alike, else of the same first word."""
        words = list(itertools.takewhile(lambda word: not word.startswith("-"), argv[:2])) or argv[:1]
        names = sorted(name for name, _ in self.command_manager)
        first = get_close_matches(argv[0], {name.partition(" ")[0] for name in names}, 1, 0.7)
        alike = get_close_matches(" ".join(words), names, 3, 0.75) if len(words) > 1 else []
        near = alike or [
            name for name in names if name.startswith(argv[0]) or name.partition(" ")[0] in first
        ]
        hint = f"did you mean {', '.join(near)}?" if near else f"see {self.NAME} help"
        return f"{' '.join(words)!r} is not a command; {hint}"

    def _complain_shortly(self, parser: argparse.ArgumentParser, command: str | None) -> None:
        """Let a parser say what is wrong in one line that names the help, instead of the whole usage before it."""

        def fail(message: str) -> NoReturn:
            at, topic = (f"{command}: ", f" {command}") if command else ("", "")
            self.complain(f"{at}{message}; see {self.NAME} help{topic}")
            raise SystemExit(exits.USAGE)

        parser.error = fail  # type: ignore[method-assign]

    def complain(self, text: str) -> None:
        """One line for the user, beside the output."""
        self.stderr.write(f"{self.NAME}: {text}\n")


class CsvOne(SingleFormatter):
    """One object as two CSV lines: names, values."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """No options."""

    def emit_one(
        self, column_names: Sequence[str], data: Sequence[Any], stdout: IO[str], _: argparse.Namespace
    ) -> None:
        """Write both lines."""
        writer = csv.writer(stdout, lineterminator="\n")
        writer.writerow(column_names)
        writer.writerow([_text(value) for value in data])


class Show(ShowOne):
    """Shows one object; adds ``-f csv`` to cliff's formats."""

    app: Console

    @property
    def formatter_namespace(self) -> str:
        """Our own list of formats, so that other cliff programs of this environment keep theirs."""
        return "nova_sched.formatter.show"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """cliff's options; on a terminal long values are wrapped."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.set_defaults(fit_width=self.app is not None and self.app.stdout.isatty())
        return parser

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Any]
    ) -> int:
        """Write the object; lists and mappings in it as text in tables."""
        values = [presentable(value) for value in data]
        return int(super().produce_output(parsed_args, column_names, values) or 0)


class List(Lister):
    """Lists objects."""

    app: Console
    _verdict: Exception | None = None

    def defer_exit(self, verdict: Exception | None) -> None:
        """Raise this once the rows are written: an answer that is shown and is a "no" all the same."""
        self._verdict = verdict

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        """Write the rows; lists and mappings in them as text in tables."""
        readable = [[presentable(value) for value in row] for row in data]
        return int(super().produce_output(parsed_args, column_names, readable) or 0)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Write the rows, then say the verdict."""
        code = int(super().run(parsed_args) or 0)
        if self._verdict is not None:
            self.app.stdout.flush()
            raise self._verdict
        return code


class Act(Command):
    """Does something and says so in a line."""

    app: Console

    def say(self, text: str) -> None:
        """Write one line of result."""
        self.app.stdout.write(text + "\n")


def run(app: Console, argv: Sequence[str] | None = None) -> int:
    """Run a command line to its exit code; nothing leaves as a traceback unless ``--debug`` asks for it."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return app.run(words)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else exits.USAGE


def _first_word(words: Sequence[str]) -> int:
    """Where the command begins."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _WITH_VALUE else 1
    return at


def _names_file(word: str) -> bool:
    return word == "--config-file" or word.startswith("--config-file=")


def _level(options: argparse.Namespace) -> int:
    if options.debug:
        return logging.DEBUG
    return {0: logging.CRITICAL, 1: logging.ERROR, 2: logging.INFO}.get(options.verbose_level, logging.DEBUG)


def _text(value: Any) -> str:
    return "" if value is None else str(value)
