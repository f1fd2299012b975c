"""Exit codes, formats and single lines, whatever the command."""

from __future__ import annotations

import json
import sqlite3

import pytest
import yaml

from nova_sched import errors
from nova_sched.cmd import exits


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NoValidHost("no room"), 1),
        (errors.InstanceNotFound("u"), 1),
        (errors.DecisionNotFound("Decision 7"), 1),
        (errors.ConfigurationError("a", 1, "b"), 2),
        (errors.UnknownPlugin("a", 1, ["b"]), 2),
        (errors.MalformedMessage("x"), 2),
        (exits.UsageError("x"), 2),
        (FileNotFoundError(2, "No such file", "f"), 2),
        (errors.StoreUnavailable("away"), 3),
        (errors.BusUnavailable("away"), 3),
        (errors.QueueMismatch("other"), 2),
        (TimeoutError("late"), 3),
        (errors.PluginError("RamFilter", ValueError("x")), 4),
        (RuntimeError("x"), 4),
    ],
)
def test_exit_code_says_whose_turn_it_is(error, code):
    """0 yes, 1 no, 2 usage or configuration, 3 not reachable, 4 our fault."""
    assert exits.exit_code(error) == code


def test_error_is_one_line_without_secrets():
    """Several lines become one, passwords are masked."""
    line = exits.one_line(errors.StoreUnavailable("refused\n  by 'password': 's3cret'"))
    assert "\n" not in line
    assert "s3cret" not in line


def test_wrong_option_exits_2_with_one_line(shell):
    """The configuration is refused with option, value and expectation."""
    shell.write("[DEFAULT]\nscheduler_max_attempts = 0")
    ran = shell.manage("config", "check")
    assert ran.code == 2
    assert (
        ran.err == "nova-sched-manage: scheduler_max_attempts = '0': expected a whole number from 1 to 1000\n"
    )
    assert ran.out == ""


def test_unknown_command_exits_2_and_names_near_ones(shell):
    """A slip of the finger is no riddle."""
    ran = shell.manage("db", "verson")
    assert ran.code == 2
    assert ran.err == "nova-sched-manage: 'db verson' is not a command; did you mean db version?\n"
    assert "did you mean group add-member, group create" in shell.manage("grup").err


@pytest.mark.parametrize("words", [("zzz",), ("status", "now"), ("--frobnicate",)])
def test_unrelated_words_get_no_wrong_advice(shell, words):
    """What resembles no command is not answered with whichever is the shortest."""
    ran = shell.client(*words)
    assert ran.code == 2
    assert "did you mean" not in ran.err
    assert ran.err.endswith("is not a command; see nova-sched help\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("host", "show"),
            "nova-sched: host show: the following arguments are required: host; see nova-sched help host show\n",
        ),
        (
            ("host", "list", "--all"),
            "nova-sched: host list: unrecognized arguments: --all; see nova-sched help host list\n",
        ),
        (
            ("--config-dir",),
            "nova-sched: argument --config-dir: expected one argument; see nova-sched help\n",
        ),
    ],
)
def test_wrong_usage_is_one_line_that_names_the_help(shell, words, line):
    """The usage of a command is longer than a screen may be; it is there for those who ask."""
    ran = shell.client(*words)
    assert (ran.code, ran.out, ran.err) == (2, "", line)


def test_missing_configuration_file_exits_2(shell):
    """A --config-file that is not there is named."""
    shell.config.unlink()
    ran = shell.manage("db", "version")
    assert ran.code == 2
    assert str(shell.config) in ran.err


def test_database_that_is_away_exits_3(shell):
    """A server that does not answer is not our fault."""
    shell.config.write_text("[database]\nconnection = mysql://u:s3cret@127.0.0.1:1/d")
    ran = shell.manage("db", "version")
    assert ran.code == 3
    assert ran.err.count("\n") == 1
    assert "s3cret" not in ran.err


def test_database_file_that_cannot_be_opened_is_named(shell):
    """SQLite itself does not say which."""
    shell.config.write_text("[database]\nconnection = sqlite:////nowhere/sched.sqlite")
    ran = shell.manage("db", "sync")
    assert ran.code == 3
    assert "/nowhere/sched.sqlite" in ran.err


def test_commands_ask_for_db_sync_on_an_old_schema(shell):
    """The remedy stands in the error."""
    sqlite3.connect(shell.database.removeprefix("sqlite:///")).close()
    ran = shell.manage("service", "list")
    assert ran.code == 2
    assert "nova-sched-manage db sync" in ran.err


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("client", ("host", "list")),
        ("client", ("decision", "list")),
        ("client", ("export",)),
        ("manage", ("service", "list")),
        ("manage", ("db", "version")),
        ("manage", ("db", "purge")),
    ],
)
def test_reading_makes_no_database_file(shell, program, words):
    """The path may be misspelt; it is named in one line with the remedy, and nothing is left there."""
    ran = getattr(shell, program)(*words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"'{shell.database}': expected a file that exists" in ran.err
    assert "nova-sched-manage db sync" in ran.err
    assert not list(shell.config.parent.glob("*.sqlite*"))


def test_one_object_in_every_format(shell):
    """-f json, yaml, csv and table for commands that show one object."""
    shell.manage("db", "sync")
    assert json.loads(shell.manage("db", "version", "-f", "json").out)["up_to_date"] is True
    assert yaml.safe_load(shell.manage("db", "version", "-f", "yaml").out)["up_to_date"] is True
    assert shell.manage("db", "version", "-f", "csv").out.splitlines()[0] == "found,wanted,up_to_date"
    assert "| up_to_date" in shell.manage("db", "version").out


def test_lists_in_every_format(shell):
    """-f json, yaml, csv and table for commands that list objects."""
    words = ("plugins", "list", "drivers")
    names = {"chance", "filter_scheduler", "caching_scheduler"}
    assert names <= {row["Name"] for row in json.loads(shell.manage(*words, "-f", "json").out)}
    assert names <= {row["Name"] for row in yaml.safe_load(shell.manage(*words, "-f", "yaml").out)}
    assert "filter_scheduler" in shell.manage(*words, "-f", "csv").out
    assert "| filter_scheduler" in shell.manage(*words, "-f", "table").out


def test_help_lists_commands_and_exits_0(shell):
    """No arguments: help."""
    ran = shell.manage()
    assert ran.code == 0
    assert "config check" in ran.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("instance", "delete", "web-1"), "'web-1' is not a uuid"),
        (("boot", "--vcpus", "two"), "'two' is not a whole number"),
    ],
)
def test_wrong_argument_is_told_in_words_before_anything_is_sent(shell, words, complaint):
    """A deletion of what cannot be an instance would never be answered."""
    ran = shell.client(*words)
    assert ran.code == 2
    assert complaint in ran.err


@pytest.mark.parametrize(
    ("words", "what"), [(("7",), "Decision 7"), (("--instance", "u-1"), "A decision about u-1")]
)
def test_a_decision_that_is_not_there_is_a_no(shell, words, what):
    """As an instance or a host that is unknown."""
    shell.manage("db", "sync")
    ran = shell.client("decision", "show", *words)
    assert ran.code == 1
    assert ran.err == f"nova-sched: {what} could not be found; records are kept for a while only.\n"
