"""The columns against the row-by-row oracle, on random clouds and requests."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.hosts.schema import HOST_COLUMNS, Aggregate, HostDelta
from nova_sched.hosts.table import HostTable
from nova_sched.model.decision import Decision
from nova_sched.model.explanation import Detail
from nova_sched.model.facts import Facts, GroupFact, InstanceFact
from nova_sched.model.request import (
    Amounts,
    Caller,
    Flavor,
    Image,
    InstanceRef,
    SchedulingRequest,
)
from nova_sched.settings import FilterSettings, SchedulerSettings, WeigherSettings
from nova_sched.testing.oracle import FILTERS, WEIGHERS, Oracle, OracleRound

NOW = 1_000_000.0
HOSTS = [f"h{number}" for number in range(8)]
PROPERTY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

maybe = lambda values: st.one_of(st.none(), values)  # noqa: E731 (a strategy is a value)
ratios = st.sampled_from([None, 0.0, 1.0, 1.5, 2.0])

rows = st.fixed_dictionaries(
    {
        "vcpus": maybe(st.sampled_from([0, 1, 4, 16])),
        "memory_mb": maybe(st.sampled_from([0, 1024, 4096])),
        "local_gb": maybe(st.sampled_from([0, 10, 100])),
        "vcpus_used": maybe(st.integers(0, 20)),
        "free_ram_mb": maybe(st.sampled_from([-512, 0, 512, 1024, 2048, 4096])),
        "free_disk_gb": maybe(st.integers(-1, 100)),
        "disk_available_least": maybe(st.integers(-1, 100)),
        "local_gb_used": maybe(st.integers(0, 100)),
        "stats": st.sampled_from(
            [
                None,
                "",
                "{}",
                "{broken",
                "[]",
                '{"num_instances": "3", "io_workload": 2}',
                '{"num_instances": "x"}',
            ]
        ),
        "cpu_allocation_ratio": ratios,
        "ram_allocation_ratio": ratios,
        "disk_allocation_ratio": ratios,
        "failed_builds": maybe(st.integers(0, 3)),
        "claimed_vcpus": st.integers(0, 2),
        "claimed_memory_mb": st.sampled_from([0, 512]),
        "claimed_disk_mb": st.sampled_from([0, 1024]),
        "claimed_instances": st.integers(0, 2),
        "claimed_io_ops": st.integers(0, 2),
        "heartbeat_seconds": maybe(st.sampled_from([NOW, NOW - 60, NOW - 61, NOW + 61])),
        "disabled": st.booleans(),
    }
)
metadata = st.dictionaries(
    st.sampled_from(
        [
            "availability_zone",
            "ram_allocation_ratio",
            "cpu_allocation_ratio",
            "disk_allocation_ratio",
            "max_io_ops_per_host",
            "max_instances_per_host",
            "filter_tenant_id",
            "instance_type",
            *WEIGHERS,
        ]
    ),
    st.sampled_from(["1.0", "2", "10", "9", "-1", "bad", "", "z1", "z1, z2", "p1,p2", "tiny , huge"]),
    max_size=4,
)
aggregates = st.lists(st.tuples(st.frozensets(st.sampled_from(HOSTS)), metadata), max_size=4).map(
    lambda found: tuple(Aggregate(i, f"a{i}", hosts, data) for i, (hosts, data) in enumerate(found, start=1))
)
sizes = st.fixed_dictionaries(
    {
        "vcpus": st.integers(0, 4),
        "memory_mb": st.sampled_from([0, 512, 1024, 2048]),
        "root_gb": st.sampled_from([0, 1, 10]),
        "swap_mb": st.sampled_from([0, 512]),
    }
)
multipliers = st.fixed_dictionaries({name: st.sampled_from([0.0, 1.0, -1.0, 0.5]) for name in WEIGHERS})


@st.composite
def clouds(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Host rows; several nodes may share a host."""
    found = draw(st.lists(rows, min_size=0, max_size=8))
    hosts = draw(st.lists(st.sampled_from(HOSTS), min_size=len(found), max_size=len(found)))
    return [
        {**row, "id": number * 3, "host": host, "node": f"{host}-n{number}"}
        for number, (row, host) in enumerate(zip(found, hosts, strict=True), start=1)
    ]


@st.composite
def requests(draw: st.DrawFn) -> SchedulingRequest:
    """run_instance requests of one to four instances."""
    names = st.frozensets(st.sampled_from(HOSTS), min_size=1, max_size=3)
    flavor = Flavor(id=draw(st.integers(1, 2)), name=draw(st.sampled_from(["tiny", "huge"])), **draw(sizes))
    count = draw(st.integers(1, 4))
    hints = {}
    if draw(st.booleans()):
        hints[draw(st.sampled_from(["same_host", "different_host"]))] = ("g1", "g2")
    return SchedulingRequest(
        method="run_instance",
        caller=Caller(is_admin=True),
        instances=tuple(InstanceRef(f"i{number}", number) for number in range(count)),
        flavor=flavor,
        amounts=Amounts(flavor.vcpus, flavor.memory_mb, flavor.root_gb * 1024),
        instance_type_id=flavor.id,
        image=Image(id=draw(st.sampled_from(["plain", "isolated"]))),
        project_id=draw(st.sampled_from(["p1", "p3"])),
        availability_zone=draw(st.sampled_from([None, "", "z1", "nova"])),
        tried=draw(st.sampled_from([(), (("h1", "h1-n1"), ("h2", "h2-n1"))])),
        hints=hints,
        ignore_hosts=draw(maybe(names)),
        force_hosts=draw(st.one_of(st.none(), st.none(), st.none(), names)),
    )


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Everything a decision depends on."""
    policy = draw(st.sampled_from([None, "affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]))
    enabled = draw(st.lists(st.sampled_from(sorted(FILTERS)), unique=True, max_size=6))
    needed = {"affinity": "ServerGroupAffinityFilter", "anti-affinity": "ServerGroupAntiAffinityFilter"}
    if policy in needed and needed[policy] not in enabled:
        enabled.append(needed[policy])
    hosts = draw(clouds())
    places = sorted({row["host"] for row in hosts}) or HOSTS
    members = draw(st.lists(st.sampled_from(places), max_size=3)) if policy else []
    return {
        "hosts": hosts,
        "aggregates": draw(aggregates),
        "request": draw(requests()),
        "policy": policy,
        "members": members,
        "guests": [
            (host, draw(st.integers(1, 2)), f"g{number}")
            for number, host in enumerate(draw(st.lists(st.sampled_from(places), max_size=3)), start=1)
        ],
        "settings": SchedulerSettings(
            filters=FilterSettings(
                enabled=tuple(enabled),
                isolated_images=("isolated",),
                isolated_hosts=("h1", "h2"),
                max_io_ops_per_host=3,
                max_instances_per_host=5,
            ),
            weighers=WeigherSettings(**draw(multipliers)),
        ),
    }


def table_of(world: dict[str, Any]) -> HostTable:
    table = HostTable()
    columns = {name: [row.get(name) for row in world["hosts"]] for name in HOST_COLUMNS}
    table.apply(HostDelta(columns, NOW, full=True, aggregates=world["aggregates"]))
    return table


def facts_of(world: dict[str, Any]) -> Facts:
    group = None
    if world["policy"]:
        members = {f"m{number}": host for number, host in enumerate(world["members"])}
        group = GroupFact("group", "group", frozenset({world["policy"]}), members)
    guests = [InstanceFact(uuid, host, None, "p1", kind) for host, kind, uuid in world["guests"]]
    by_host: dict[str, tuple[InstanceFact, ...]] = {}
    for one in guests:
        by_host[one.host or ""] = (*by_host.get(one.host or "", ()), one)
    return Facts(group, {one.uuid: one for one in guests}, by_host)


def decide(world: dict[str, Any], table: HostTable, driver: FilterDriver | None = None) -> Decision:
    driver = driver or FilterDriver.from_settings(world["settings"])
    rng = np.random.default_rng(0)
    return driver.decide(world["request"], table.overlay(), facts_of(world), rng, Detail.FULL)


def expected_of(world: dict[str, Any]) -> list[OracleRound]:
    oracle = Oracle(
        world["settings"],
        world["hosts"],
        world["aggregates"],
        now_seconds=NOW,
        policies=[world["policy"]] if world["policy"] else (),
        member_hosts=world["members"],
        guests=world["guests"],
    )
    return oracle.schedule(world["request"])


def assert_same(world: dict[str, Any], decision: Decision, expected: list[OracleRound]) -> None:
    ids = {(row["host"], row["node"]): row["id"] for row in world["hosts"]}
    found = decision.explanation.rounds
    assert len(found) == len(expected)
    for one, wanted in zip(found, expected, strict=True):
        trace = [(step.name, sorted(ids[host] for host in step.hosts or ())) for step in one.steps]
        assert trace == [(name, sorted(left)) for name, left in wanted.trace]
        assert (None if one.chosen is None else ids[one.chosen]) == wanted.chosen
        weights = {ids[host.host, host.node]: host.weight for host in one.weighed}
        assert weights.keys() == wanted.weights.keys()
        for host, weight in wanted.weights.items():
            assert abs(weights[host] - weight) < 1e-9


@PROPERTY
@given(worlds())
def test_the_engine_answers_as_the_oracle_does(world: dict[str, Any]) -> None:
    """Same hosts after every filter, same weights, same choice, round after round."""
    assert_same(world, decide(world, table_of(world)), expected_of(world))


@PROPERTY
@given(worlds(), st.randoms(use_true_random=False))
def test_any_order_of_filters_leaves_the_same_hosts(world: dict[str, Any], random: Any) -> None:
    """Filters are pure: shuffled, they leave the same set in the first round."""
    enabled = list(world["settings"].filters.enabled)
    random.shuffle(enabled)
    shuffled = {
        **world,
        "settings": replace(
            world["settings"], filters=replace(world["settings"].filters, enabled=tuple(enabled))
        ),
    }
    table = table_of(world)
    first = decide(world, table).explanation.rounds[0]
    assert decide(shuffled, table).explanation.rounds[0].filtered == first.filtered


def fingerprint(table: HostTable) -> str:
    digest = hashlib.sha256()
    frame = table.frame
    for column in (
        *frame.numbers.values(),
        frame.disabled,
        frame.ids,
        *(c.codes for c in frame.coded.values()),
    ):
        digest.update(column.tobytes())
    return digest.hexdigest()


@PROPERTY
@given(worlds())
def test_no_decision_changes_the_table(world: dict[str, Any]) -> None:
    """Neither filters, weighers nor a batch's consumption write to the shared columns."""
    table = table_of(world)
    before = fingerprint(table)
    decide(world, table)
    assert fingerprint(table) == before


@PROPERTY
@given(worlds(), worlds())
def test_a_driver_that_served_other_requests_answers_the_same(
    world: dict[str, Any], other: dict[str, Any]
) -> None:
    """Kept masks of other tables and requests, and rows that changed since, never show in an answer."""
    driver = FilterDriver.from_settings(world["settings"])
    decide({**other, "settings": world["settings"], "policy": None}, table_of(other), driver)
    table = table_of({**other, "settings": world["settings"]})
    decide({**other, "settings": world["settings"], "policy": None}, table, driver)
    columns = {name: [row.get(name) for row in world["hosts"]] for name in HOST_COLUMNS}
    table.apply(HostDelta(columns, NOW, full=True, aggregates=world["aggregates"]))
    assert_same(world, decide(world, table, driver), expected_of(world))
