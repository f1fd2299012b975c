"""The state that exports read: the same facts and the same free room as the service itself sees."""

from __future__ import annotations

import pytest

from nova_sched.conf.mapping import settings_from_mapping
from nova_sched.db.decisions import DecisionHistory
from nova_sched.db.export import read_state
from nova_sched.hosts.table import HostTable
from nova_sched.lab.case import parse
from nova_sched.lab.export import NotRecorded, as_case, recorded_request
from nova_sched.lab.scene import Scene
from nova_sched.model.facts import Fact
from nova_sched.model.numa import InstanceCell, InstanceTopology
from nova_sched.model.pci import PciPool, PciRequest
from nova_sched.model.states import ClaimKind
from nova_sched.service.ports import VerdictKind
from nova_sched.settings import Settings
from nova_sched.wire import inbound
from tests.integration.db.worlds import SqlWorld, placed, record_of, request, uuid_of

GROUP = "bbbb0000-0000-4000-8000-000000000001"
POOL = [{"count": 2, "vendor_id": "8086", "product_id": "1520"}]


def scene_of(sql: SqlWorld) -> Scene:
    """What offline commands work on."""
    return Scene(parse(as_case("state", read_state(sql.database), {})), settings_from_mapping({}))


def amounts(view) -> list[tuple]:
    columns = (view.free_ram_mb, view.free_disk_mb, view.vcpus_used, view.num_instances, view.num_io_ops)
    return list(zip(view.hosts.tolist(), view.nodes.tolist(), *(c.tolist() for c in columns), strict=True))


def test_an_export_shows_the_room_that_the_service_sees(sql: SqlWorld) -> None:
    """Reported numbers, one claim that a report contains and one that none does, devices among them."""
    first, second = sql.add_host(), sql.add_host(pci_stats=POOL)
    sql.store.commit([placed(request(1), first), placed(request(2), first)])
    sql.contain(first, [uuid_of(1)], free_ram_mb=30000, vcpus_used=2)
    asked = request(3, pci_requests=(PciRequest(1, ({"vendor_id": "8086"},)),))
    left = (PciPool(1, {"vendor_id": "8086", "product_id": "1520"}),)
    sql.store.commit([placed(asked, second, pci_pools=left)])
    table = HostTable()
    table.apply(sql.source.read_delta(None))
    found = scene_of(sql).overlay
    assert amounts(found.view) == amounts(table.view())
    assert found.pools(1) == table.pools(1)


def test_an_export_knows_groups_and_members_on_the_move(sql: SqlWorld) -> None:
    """The same facts as SQL gives: a member on its host, and again where it is going."""
    first, second = sql.add_host(), sql.add_host()
    sql.add_group(GROUP, "web", "anti-affinity", [uuid_of(1), uuid_of(2)])
    member = request(1, group=GROUP)
    sql.store.commit([placed(member, first, group_uuid=GROUP)])
    (before,) = sql.facts.load([request(2)], frozenset({Fact.GROUP}))
    assert before.group is not None
    move = placed(
        request(1, method="prep_resize", group=GROUP),
        second,
        kind=ClaimKind.MOVE,
        claim_uuid=uuid_of(91),
        group_uuid=GROUP,
        group_generation=before.group.generation,
    )
    assert [one.kind for one in sql.store.commit([move])] == [VerdictKind.COMMITTED]
    (wanted,) = sql.facts.load([request(2)], frozenset({Fact.GROUP}))
    found = scene_of(sql).facts(request(2))
    assert wanted.group is not None
    assert found.group is not None
    assert dict(wanted.group.member_hosts) == {uuid_of(1): "h1", f"{uuid_of(1)}/moving": "h2"}
    assert dict(found.group.member_hosts) == dict(wanted.group.member_hosts)
    assert found.group.policies == wanted.group.policies


def test_a_recorded_request_asks_the_same_again(sql: SqlWorld) -> None:
    """Sizes, image, hints, devices, cells and hosts tried come back through the decision record."""
    asked = request(
        1,
        attempt=2,
        tried=(("h9", "h9.lab"),),
        availability_zone="north",
        hints={"different_host": [uuid_of(7)]},
        ignore_hosts=frozenset({"h8"}),
        numa=InstanceTopology((InstanceCell(0, frozenset({0, 1}), 1024),)),
        pci_requests=(PciRequest(2, ({"vendor_id": "8086"},)),),
    )
    sql.store.commit([placed(asked, sql.add_host())], [record_of(asked)])
    (stored,) = DecisionHistory(sql.database).list(uuid_of(1))
    told = recorded_request(uuid_of(1), stored.method, stored.project_id, stored.record["request"])
    again = inbound.of("explain", told["context"], told, Settings())
    for field in (
        "flavor",
        "amounts",
        "tried",
        "availability_zone",
        "ignore_hosts",
        "numa",
        "pci_requests",
        "project_id",
    ):
        assert getattr(again, field) == getattr(asked, field), field
    assert [list(value) for value in again.hints.values()] == [[uuid_of(7)]]


def test_a_record_of_an_older_service_is_not_enough() -> None:
    """Without the sizes of the flavor nothing can be asked again."""
    with pytest.raises(NotRecorded, match="sizes"):
        recorded_request("u", "run_instance", "p", {"flavor": {"name": "lab", "id": "7"}})
