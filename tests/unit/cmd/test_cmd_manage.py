"""nova-sched-manage on a real database: what is written is what is listed."""

from __future__ import annotations

import json

import pytest

from nova_sched.db.engine import Database
from nova_sched.settings import DatabaseSettings


@pytest.fixture
def shell(shell):
    assert shell.manage("db", "sync").code == 0
    return shell


@pytest.fixture
def host(shell):
    """A database that knows the compute service alder."""
    database = Database(DatabaseSettings(connection=shell.database))
    database.write(
        lambda connection: connection.exec_driver_sql(
            "INSERT INTO sched_services (host, disabled, changed, heartbeat_at)"
            " VALUES ('alder', 0, 0, unixepoch('now'))"
        )
    )
    database.close()
    return "alder"


def listed(shell, *words: str) -> list[dict[str, object]]:
    ran = shell.manage(*words, "-f", "json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_service_is_disabled_with_a_reason_and_enabled_again(shell, host):
    """The reason is shown to whoever wonders."""
    assert listed(shell, "service", "list")[0]["State"] == "up"
    assert shell.manage("service", "disable", host, "--reason", "new disks").code == 0
    found = listed(shell, "service", "list")[0]
    assert (found["State"], found["Reason"]) == ("disabled", "new disks")
    assert shell.manage("service", "enable", host).code == 0
    found = listed(shell, "service", "list")[0]
    assert (found["State"], found["Reason"]) == ("up", None)


def test_unknown_service_exits_1(shell):
    """A name that no service has."""
    ran = shell.manage("service", "disable", "nowhere")
    assert (ran.code, ran.err) == (1, "nova-sched-manage: Host nowhere could not be found.\n")


def test_aggregate_lives_from_create_to_delete(shell, host):
    """Zone, metadata and hosts, each set and removed."""
    assert shell.manage("aggregate", "create", "fast", "--zone", "z1", "--property", "ssd=true").code == 0
    ran = shell.manage("aggregate", "add-host", "fast", host, "beech")
    assert "beech" in ran.err
    assert "alder" not in ran.err
    assert shell.manage("aggregate", "set", "fast", "--property", "ratio=2", "--unset", "ssd").code == 0
    assert shell.manage("aggregate", "remove-host", "fast", "beech").code == 0
    shown = json.loads(shell.manage("aggregate", "show", "fast", "-f", "json").out)
    assert shown["hosts"] == [host]
    assert shown["metadata"] == {"availability_zone": "z1", "ratio": "2"}
    assert shell.manage("aggregate", "delete", str(shown["id"])).code == 0
    assert listed(shell, "aggregate", "list") == []


def test_aggregate_metadata_needs_no_option(shell):
    """KEY=VALUE alone means what --property KEY=VALUE does, wherever it stands."""
    assert shell.manage("aggregate", "create", "fast", "ssd=true", "--zone", "z1", "net=10g").code == 0
    assert (
        shell.manage("aggregate", "set", "fast", "--unset", "net", "ratio=2", "--property", "a=b").code == 0
    )
    shown = json.loads(shell.manage("aggregate", "show", "fast", "-f", "json").out)
    assert shown["metadata"] == {"availability_zone": "z1", "ssd": "true", "ratio": "2", "a": "b"}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("aggregate", "create", "a", "broken"), 2),
        (("aggregate", "show", "none"), 1),
        (("aggregate", "delete", "none"), 1),
        (("aggregate", "add-host", "none", "h"), 1),
        (("aggregate", "create", "a", "--property", "broken"), 2),
        (("aggregate", "set", "a"), 2),
        (("group", "show", "none"), 1),
        (("group", "add-member", "none", "u"), 1),
        (("group", "create", "g", "--policy", "togetherness"), 2),
        (("claim", "end", "none"), 1),
    ],
)
def test_mistakes_have_their_exit_codes(shell, words, code):
    """1: there is no such thing; 2: that is no way to say it."""
    ran = shell.manage(*words)
    assert ran.code == code
    assert ran.err


def test_aggregate_name_is_taken_once(shell):
    """Creating it again is refused instead of merged."""
    assert shell.manage("aggregate", "create", "a").code == 0
    assert shell.manage("aggregate", "create", "a").code == 2


def test_group_lives_from_create_to_delete(shell):
    """Found by name and by uuid."""
    made = shell.manage("group", "create", "web", "--policy", "anti-affinity", "--member", "u1")
    assert made.code == 0
    uuid = made.out.split()[-1]
    assert shell.manage("group", "add-member", "web", "u2", "u1").code == 0
    assert shell.manage("group", "remove-member", uuid, "u1").code == 0
    (found,) = listed(shell, "group", "list")
    assert (found["ID"], found["Policies"], found["Members"]) == (uuid, ["anti-affinity"], ["u2"])
    assert shell.manage("group", "delete", uuid).code == 0
    assert listed(shell, "group", "list") == []


def test_purge_of_an_empty_history_deletes_nothing(shell):
    """And says so by table."""
    assert {row["Rows deleted"] for row in listed(shell, "db", "purge")} == {0}


def test_dead_letters_need_rabbitmq(shell):
    """Other transports keep none; the command says where they are."""
    shell.write("[DEFAULT]\ntransport_url = fake://")
    ran = shell.manage("dead-letter", "list")
    assert ran.code == 2
    assert "log" in ran.err


def test_dead_letters_of_an_absent_broker_exit_3(shell):
    """Not reachable is not our fault."""
    shell.write("[DEFAULT]\ntransport_url = rabbit://u:s3cret@127.0.0.1:1/")
    ran = shell.manage("dead-letter", "list")
    assert ran.code == 3
    assert "s3cret" not in ran.err


def test_lists_and_mappings_are_text_for_people_and_data_for_machines(shell, host):
    """No Python syntax in tables."""
    shell.manage(
        "aggregate", "create", "fast", "--host", host, "--property", "ssd=true", "--property", "rack=7"
    )
    table = shell.manage("aggregate", "show", "fast").out
    assert "ssd=true" in table
    assert "rack=7" in table
    assert not set("{}[]'") & set(table)
    assert json.loads(shell.manage("aggregate", "list", "-f", "json").out)[0]["Hosts"] == [host]
