"""What agents say and what it does to rows: reports, instance updates, and the claims that nobody spoke of."""

from __future__ import annotations

from typing import Any

import pytest

from nova_sched.db.admin import ClaimAdmin, ServiceAdmin
from nova_sched.db.expiry import Expiry, ExpiryLimits
from nova_sched.errors import InstanceNotFound, MalformedMessage
from nova_sched.hosts.table import HostTable
from nova_sched.model.states import ClaimState, EndReason
from nova_sched.service.ports import VerdictKind
from tests.integration.db.worlds import SqlWorld, event_of, failed, placed, request, uuid_of

U1, U2 = uuid_of(1), uuid_of(2)
LIMITS = ExpiryLimits(build_timeout_seconds=3600, service_down_time_seconds=60)


def state(world: SqlWorld, uuid: str = U1) -> tuple[ClaimState, str | None]:
    claim = world.store.prior([uuid])[uuid].claim
    return claim.state, claim.ended_reason


def tell(
    world: SqlWorld, state: str, host: int = 1, attempt: int = 1, uuid: str = U1, reason: str = "boom"
) -> None:
    world.sink.update_instance(
        uuid=uuid, attempt=attempt, host=f"h{host}", node=f"h{host}.lab", state=state, reason=reason
    )
    world.sink.apply()


def expire(world: SqlWorld, limits: ExpiryLimits = LIMITS) -> dict[str, int]:
    return dict(Expiry(world.database, event_of).run(limits))


def heartbeat(world: SqlWorld, host: int = 1) -> float:
    return float(world.scalar(f"SELECT heartbeat_at FROM sched_services WHERE host = 'h{host}'"))


def test_a_heartbeat_alone_makes_no_row_travel(sql: SqlWorld) -> None:
    """Unchanged values cost the service's row only; the table still learns that the host is alive."""
    host = sql.add_host()
    table = HostTable()
    first = sql.source.read_delta(None)
    table.apply(first)
    generation = sql.host(host)["allocation_generation"]
    sql.execute("UPDATE sched_services SET heartbeat_at = 1000")
    sql.report(1, instances=None)
    delta = sql.source.read_delta(first.cursor)
    assert list(delta.columns["id"]) == []
    assert set(delta.heartbeats) == {"h1"}
    table.apply(delta)
    assert table.view().heartbeat_seconds[0] == heartbeat(sql) > 1000
    sql.report(1, instances=[], full=True, vcpus=16, memory_mb=32768)
    assert sql.host(host)["allocation_generation"] == generation + 1


def test_a_full_report_replaces_and_a_delta_adds(sql: SqlWorld) -> None:
    """Columns left out of a full report are unknown from then on."""
    host = sql.add_host()
    sql.report(1, free_ram_mb=100)
    row = sql.host(host)
    assert (row["free_ram_mb"], row["vcpus"], row["hypervisor_type"]) == (100, 16, "QEMU")
    sql.report(1, full=True, vcpus=8, cpu_info={"vendor": "Intel"}, cpu_allocation_ratio=2.5)
    row = sql.host(host)
    assert (row["free_ram_mb"], row["vcpus"], row["cpu_allocation_ratio"]) == (None, 8, 2.5)
    assert row["cpu_info"] == '{"vendor":"Intel"}'


def test_an_older_report_changes_nothing(sql: SqlWorld) -> None:
    """DELIVERY 18: (epoch, seq) grows; also within one batch that came out of order."""
    host = sql.add_host()

    def report(epoch: int, seq: int, **values: Any) -> None:
        node = {"hypervisor_hostname": "h1.lab", "values": values}
        sql.sink.report_state({"host": "h1", "epoch": epoch, "seq": seq}, [node])

    report(2, 2, free_ram_mb=222)
    report(2, 1, free_ram_mb=221)
    sql.sink.apply()
    assert sql.host(host)["free_ram_mb"] == 222
    report(1, 99, free_ram_mb=199)
    report(2, 2, free_ram_mb=200)
    sql.sink.apply()
    assert sql.host(host)["free_ram_mb"] == 222
    report(3, 1, free_ram_mb=301)
    sql.sink.apply()
    assert sql.host(host)["free_ram_mb"] == 301


def test_a_report_that_waited_too_long_does_not_revive_its_host(sql: SqlWorld) -> None:
    """DELIVERY 18: it tells of the time it was made."""
    sql.add_host()
    before = heartbeat(sql)
    sql.sink.report_state({"host": "h1", "epoch": 9, "seq": 9}, [], age_seconds=120.0)
    sql.sink.apply()
    assert heartbeat(sql) == before
    sql.execute("UPDATE sched_services SET heartbeat_at = 1000")
    sql.sink.report_state({"host": "h1", "epoch": 9, "seq": 10}, [], age_seconds=120.0)
    sql.sink.apply()
    assert 1000 < heartbeat(sql) < before - 60


def test_a_node_that_a_complete_report_omits_is_gone(sql: SqlWorld) -> None:
    """And comes back with its id when it is reported again."""
    service = {"host": "h1", "epoch": 1, "seq": 1}
    two = [{"hypervisor_hostname": name, "values": {"vcpus": 4}, "full": True} for name in ("a", "b")]
    sql.sink.report_state(service, two)
    sql.sink.apply()
    first = sql.source.read_delta(None)
    assert list(first.columns["node"]) == ["a", "b"]
    sql.sink.report_state({**service, "seq": 2}, two[:1])
    sql.sink.apply()
    delta = sql.source.read_delta(first.cursor)
    assert list(delta.removed) == [first.columns["id"][1]]
    assert list(sql.source.read_delta(None).columns["node"]) == ["a"]
    sql.sink.report_state({**service, "seq": 3}, two)
    sql.sink.apply()
    assert list(sql.source.read_delta(None).columns["id"]) == list(first.columns["id"])


def test_a_report_heals_sums_that_went_wrong(sql: SqlWorld) -> None:
    """DELIVERY 19: under the host's lock the live claims are summed anew."""
    host = sql.add_host()
    sql.store.commit([placed(request(1), host)])
    sql.execute("UPDATE sched_hosts SET claimed_memory_mb = 99999")
    sql.report(1, instances=[])
    assert sql.claimed(host) == (2, 2048, 20480, 1, 1)


def test_an_agent_is_told_of_a_guest_whose_instance_was_deleted(sql: SqlWorld) -> None:
    """DELIVERY 23: its room stays taken until a report omits it; then the claim ends."""
    host = sql.add_host()
    sql.store.commit([placed(request(1), host)])
    tell(sql, "building")
    assert sql.directory.delete_instance(U1) == [("h1", U1)]
    assert sql.claimed(host)[0] == 2
    assert state(sql) == (ClaimState.BUILDING, None)
    sql.report(1, instances=[U1])
    assert sql.terminated == [("h1", U1)]
    tell(sql, "active")
    assert sql.terminated == [("h1", U1)] * 2
    sql.report(1, instances=[])
    assert state(sql) == (ClaimState.ENDED, EndReason.DELETED)
    assert sql.claimed(host)[0] == 0
    assert sql.directory.delete_instance(U1) == []


def test_a_build_goes_its_way(sql: SqlWorld) -> None:
    """claimed → building → held; active counts as a success of the host."""
    host = sql.add_host()
    sql.execute("UPDATE sched_hosts SET failed_builds = 5")
    sql.store.commit([placed(request(1), host)])
    tell(sql, "building")
    assert state(sql) == (ClaimState.BUILDING, None)
    assert sql.instance(U1)["task_state"] == "spawning"
    tell(sql, "active")
    found = sql.instance(U1)
    assert (found["vm_state"], found["task_state"], found["host"]) == ("active", None, "h1")
    assert sql.host(host)["failed_builds"] == 0
    assert state(sql) == (ClaimState.BUILDING, None)
    sql.report(1, instances=[U1])
    assert state(sql) == (ClaimState.HELD, None)
    assert sql.claimed(host)[0] == 0


def test_several_words_about_one_guest_in_one_batch(sql: SqlWorld) -> None:
    """building, active and deleted before the batch is written: the last one stands."""
    host = sql.add_host()
    sql.store.commit([placed(request(1), host)])
    for word in ("building", "active", "deleted"):
        sql.sink.update_instance(uuid=U1, attempt=1, host="h1", node="h1.lab", state=word)
    sql.sink.apply()
    assert sql.instance(U1)["vm_state"] == "deleted"
    assert state(sql) == (ClaimState.ENDED, EndReason.DELETED)
    assert sql.claimed(host)[0] == 0


def test_a_build_that_failed_for_good_ends_in_error(sql: SqlWorld) -> None:
    """The agent's own reason is the fault (LP#1361097); one event waits; a second such word changes nothing."""
    host = sql.add_host()
    sql.store.commit([placed(request(1), host)])
    tell(sql, "building")
    tell(sql, "failed", reason="No space left on device")
    tell(sql, "failed", reason="again")
    found = sql.instance(U1)
    assert (found["vm_state"], found["fault"], found["host"]) == ("error", "No space left on device", None)
    assert state(sql) == (ClaimState.ENDED, EndReason.FAILED)
    assert (sql.claimed(host)[0], sql.host(host)["failed_builds"]) == (0, 1)
    assert len(sql.waiting_events()) == 1


def test_the_word_of_an_older_attempt_changes_nothing(sql: SqlWorld) -> None:
    """DELIVERY 20: whatever the first host says after the reschedule; unknown guests and attempts neither."""
    one, two = sql.add_host(), sql.add_host()
    sql.store.commit([placed(request(1), one)])
    sql.store.commit([placed(request(1, attempt=2), two)])
    for word in ("building", "active", "failed", "deleted"):
        tell(sql, word, host=1, attempt=1)
        tell(sql, word, host=2, attempt=7)
        tell(sql, word, host=2, uuid=U2)
    assert sql.instance(U1)["vm_state"] == "building"
    assert (sql.claimed(one)[0], sql.claimed(two)[0]) == (0, 2)
    with pytest.raises(InstanceNotFound):
        sql.instance(U2)


def test_an_unanswered_claim_expires_into_an_error(sql: SqlWorld) -> None:
    """Its room comes back, the instance is in ERROR with a fault and an event; twice is once."""
    host = sql.add_host()
    sql.store.commit([placed(request(1), host, ttl_seconds=0), placed(request(2), host)])
    assert expire(sql) == {"expired": 1}
    assert expire(sql) == {}
    found = sql.instance(U1)
    assert (found["vm_state"], found["host"]) == ("error", None)
    assert "0 seconds" in found["fault"]
    assert state(sql) == (ClaimState.ENDED, EndReason.EXPIRED)
    assert sql.claimed(host)[0] == 2
    assert [event.payload["instance_uuids"] for event in sql.waiting_events()] == [[U1]]
    assert sql.store.commit([placed(request(1), host)])[0].kind is VerdictKind.REPEAT


def test_a_guest_that_comes_up_after_all_is_active_again(sql: SqlWorld) -> None:
    """DELIVERY 24: nothing is deleted by reconciliation, and its room is counted again until a report contains it."""
    host = sql.add_host()
    sql.store.commit([placed(request(1), host, ttl_seconds=0)])
    expire(sql)
    tell(sql, "building")
    assert sql.instance(U1)["vm_state"] == "error"
    tell(sql, "active")
    assert (sql.instance(U1)["vm_state"], sql.instance(U1)["host"]) == ("active", "h1")
    assert sql.claimed(host)[0] == 2
    sql.report(1, instances=[U1])
    assert state(sql) == (ClaimState.HELD, None)
    assert sql.terminated == []


def test_a_build_on_a_host_that_went_down_ends_in_error(sql: SqlWorld) -> None:
    """DELIVERY 21; a guest that is active already stays, and so does everything while agents are not watched."""
    one, two = sql.add_host(), sql.add_host()
    sql.store.commit([placed(request(1), one), placed(request(2), two)])
    tell(sql, "building")
    tell(sql, "active", host=2, uuid=U2)
    assert expire(sql) == {}
    sql.execute("UPDATE sched_services SET heartbeat_at = heartbeat_at - 61")
    assert expire(sql, ExpiryLimits(3600, 60, watch_agents=False)) == {}
    assert expire(sql) == {"agent_down": 1}
    assert (sql.instance(U1)["vm_state"], sql.instance(U2)["vm_state"]) == ("error", "active")


def test_a_build_that_takes_too_long_ends_in_error(sql: SqlWorld) -> None:
    """Counted from the agent's first word."""
    sql.add_host()
    sql.store.commit([placed(request(1), 1)])
    tell(sql, "building")
    assert expire(sql, ExpiryLimits(3600, 60)) == {}
    sql.execute("UPDATE sched_claims SET state_at = state_at - 3600")
    assert expire(sql, ExpiryLimits(3600, 60)) == {"build_timeout": 1}
    assert "3600 seconds" in sql.instance(U1)["fault"]


def test_a_build_that_a_report_contains_already_is_given_up_as_well(sql: SqlWorld) -> None:
    """DELIVERY 21: agents list guests that they are still building; when such an agent died its builds hung for ever."""
    one, two = sql.add_host(), sql.add_host()
    sql.store.commit([placed(request(1), one), placed(request(2), two), placed(request(3), two)])
    tell(sql, "building")
    tell(sql, "building", host=2, uuid=U2)
    tell(sql, "active", host=2, uuid=uuid_of(3))
    sql.report(1, instances=[U1])
    sql.report(2, instances=[U2, uuid_of(3)])
    assert state(sql) == (ClaimState.HELD, None)
    sql.execute("UPDATE sched_services SET heartbeat_at = heartbeat_at - 61 WHERE host = 'h1'")
    assert expire(sql) == {"agent_down": 1}
    assert sql.instance(U1)["vm_state"] == "error"
    sql.execute("UPDATE sched_claims SET state_at = state_at - 3600")
    assert expire(sql) == {"build_timeout": 1}
    assert (sql.instance(U2)["vm_state"], sql.instance(uuid_of(3))["vm_state"]) == ("error", "active")
    tell(sql, "active")
    assert sql.instance(U1)["vm_state"] == "active"


def test_a_destination_that_nobody_used_ends_silently(sql: SqlWorld) -> None:
    """select_destinations: no fault, no event, no instance is left, and the key may be decided again."""
    host = sql.add_host()
    asked = request(1, method="select_destinations")
    sql.store.commit([placed(asked, host, ttl_seconds=0)])
    assert sql.instance(U1)["vm_state"] == "building"
    assert expire(sql) == {"expired": 1}
    with pytest.raises(InstanceNotFound):
        sql.instance(U1)
    assert sql.waiting_events() == []
    assert sql.claimed(host)[0] == 0
    assert sql.store.commit([placed(asked, host)])[0].kind is VerdictKind.COMMITTED


def test_disabling_a_service_makes_its_hosts_travel(sql: SqlWorld) -> None:
    """With the reason, which goes when the service is enabled again."""
    sql.add_host()
    first = sql.source.read_delta(None)
    services = ServiceAdmin(sql.database)
    services.set_disabled("h1", True, "repair")
    delta = sql.source.read_delta(first.cursor)
    assert list(delta.columns["disabled"]) == [1]
    assert [(s["host"], s["disabled"], s["disabled_reason"], s["nodes"]) for s in services.list()] == [
        ("h1", True, "repair", 1)
    ]
    services.set_disabled("h1", False)
    assert services.list()[0]["disabled_reason"] is None


def test_a_row_without_its_service_is_no_host(sql: SqlWorld) -> None:
    """As in Juno."""
    host = sql.add_host()
    sql.execute("DELETE FROM sched_services")
    assert list(sql.source.read_delta(None).columns["id"]) == []
    assert list(sql.source.read_rows([host]).removed) == [host]


def test_an_operator_ends_a_claim(sql: SqlWorld) -> None:
    """Its room comes back."""
    host = sql.add_host()
    sql.store.commit([placed(request(1), host)])
    admin = ClaimAdmin(sql.database)
    assert [(c["instance_uuid"], c["host"], c["state"]) for c in admin.list()] == [(U1, "h1", "claimed")]
    assert (admin.end(U1), admin.end(U1)) == (1, 0)
    assert sql.claimed(host)[0] == 0
    assert admin.list() == []
    assert admin.list(ended=True)[0]["ended_reason"] == "operator"


def test_secrets_and_unknown_properties_never_reach_sql(sql: SqlWorld) -> None:
    """Neither those of the request nor those somebody left in an event."""
    asked = request(1, 2)
    spec = {
        "instance_properties": {
            "display_name": "vm",
            "user_data": "s3cret",
            "key_data": "s3cret",
            "metadata": {"a": "s3cret"},
        }
    }
    passthrough = type(asked.passthrough)(request_spec=spec, arguments={"admin_password": "s3cret"})
    asked = type(asked)(
        **{n: getattr(asked, n) for n in asked.__slots__ if n != "passthrough"}, passthrough=passthrough
    )
    host = sql.add_host()
    sql.store.commit([placed(asked, host), failed(asked, 1)])
    assert sql.directory.list_instances()[0]["display_name"] == "vm"
    tables = ("claims", "instances", "faults", "instance_events", "decisions", "outbox")
    for table in tables:
        rows = sql.database.read(
            lambda c, table=table: c.exec_driver_sql(f"SELECT * FROM sched_{table}").fetchall()
        )
        assert "s3cret" not in repr(rows)
    assert len(sql.waiting_events()) == 1


def test_malformed_reports_are_refused_and_not_queued(sql: SqlWorld) -> None:
    """The next batch is as if they had not been there."""
    with pytest.raises(MalformedMessage):
        sql.sink.report_state({"host": "h1"}, [])
    with pytest.raises(MalformedMessage):
        sql.sink.update_instance(uuid=U1, attempt="one", host="h1", state="active")
    sql.sink.apply()
    assert ServiceAdmin(sql.database).list() == []
