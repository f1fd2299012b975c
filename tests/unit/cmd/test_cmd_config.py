"""config check and plugins check say what the start would say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

JUNO = Path(__file__).parents[2] / "golden" / "conf" / "juno_nova.conf"


def test_valid_configuration_exits_0_and_lists_remarks(shell):
    """Remarks have a remedy; they do not stop anything."""
    ran = shell.manage("config", "check", "-f", "json")
    assert ran.code == 0
    assert "configuration is valid" in ran.err
    assert [row["Option"] for row in json.loads(ran.out)] == ["database.connection"]


def test_juno_file_is_valid_and_its_old_options_are_explained(shell):
    """An unedited nova.conf of Juno would start; what has no effect is said."""
    shell.config.write_text(JUNO.read_text())
    ran = shell.manage("config", "check", "-f", "json")
    assert ran.code == 0
    remarks = {row["Option"]: row["Remark"] for row in json.loads(ran.out)}
    assert remarks["rpc_conn_pool_size"].startswith("has no effect")
    assert any(remark == "read as transport_url" for remark in remarks.values())
    assert "p@ss" not in ran.out


def test_unknown_driver_exits_2_and_lists_known_ones(shell):
    """Names the option and what it could be."""
    shell.write("[DEFAULT]\nscheduler_driver = fliter_scheduler")
    ran = shell.manage("config", "check")
    assert ran.code == 2
    assert "scheduler_driver" in ran.err
    assert "filter_scheduler" in ran.err


def test_unknown_filter_exits_2(shell):
    """The filter list is loaded, not only read."""
    shell.write("[DEFAULT]\nscheduler_default_filters = RamFilter, NoSuchFilter")
    ran = shell.manage("plugins", "check")
    assert ran.code == 2
    assert "NoSuchFilter" in ran.err


def test_plugins_check_lists_filters_in_their_order(shell):
    """The order of the file is the order of work."""
    shell.write("[DEFAULT]\nscheduler_default_filters = ComputeFilter, RamFilter")
    rows = json.loads(shell.manage("plugins", "check", "-f", "json").out)
    assert [row["Name"] for row in rows if row["Kind"] == "filter"] == ["ComputeFilter", "RamFilter"]


def test_misspelt_option_is_remarked(shell):
    """A typo has no effect; somebody should say so."""
    shell.write("[delivery]\nprefetsch = 100")
    ran = shell.manage("config", "check", "-f", "json")
    assert any("did you mean prefetch?" in row["Remark"] for row in json.loads(ran.out))


@pytest.mark.parametrize(
    ("option", "name", "hint"),
    [
        ("scheduler_default_filters", "RamFiltr", "did you mean RamFilter?"),
        (
            "scheduler_driver",
            "nova_sched.drivers.filtering.FilterDrivr",
            "nova_sched.drivers.filtering has no FilterDrivr",
        ),
        (
            "scheduler_driver",
            "no_such_folder.mine.Driver",
            "there is no module no_such_folder. Expected one of",
        ),
    ],
)
def test_unknown_plugin_says_what_is_wrong_with_its_name(shell, option, name, hint):
    """A typo, a class that is not in its module, a module that is not there."""
    shell.write(f"[DEFAULT]\n{option} = {name}")
    assert hint in shell.manage("plugins", "check").err


def test_unknown_filter_is_told_in_one_line_with_the_hint_before_the_names(shell):
    """Each filter is named once, by its class; short names are for the hint only."""
    shell.write("[DEFAULT]\nscheduler_default_filters = RamFiltr")
    line = shell.manage("plugins", "check").err
    assert line.count("\n") == 1
    assert "'RamFiltr': did you mean RamFilter? Expected one of " in line
    names = line.partition("one of ")[2].partition(", or a dotted path")[0].split(", ")
    assert len(names) == len(set(names))
    assert "RamFilter" in names
    assert "ram" not in names


def test_unknown_driver_is_told_with_each_driver_once(shell):
    """By the name that nova.conf has for it."""
    shell.write("[DEFAULT]\nscheduler_driver = fliter")
    assert shell.manage("plugins", "check").err == (
        "nova-sched-manage: scheduler_driver = 'fliter': did you mean filter? "
        "Expected one of caching_scheduler, chance_scheduler, filter_scheduler, or a dotted path\n"
    )
