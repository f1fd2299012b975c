"""Real processes over a real broker: many instances through two workers and three agents, while things are stopped and killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest

from nova_sched.db.outbox import Outbox
from nova_sched.testing.servers import RabbitServer
from tests.functional.behaviour.cloud import FINAL, Request
from tests.integration.e2e.deployment import Deployment, terminate, until
from tests.integration.e2e.desk import Desk

AGENTS = ("node-1", "node-2", "node-3")
HUGE_MB, MEMORY_MB, HOST_MB = 10**6, 512, 98304
WORKERS, DOWN_SECONDS = 2, 4
everywhere = pytest.mark.parametrize("site", ["sqlite", "postgres", "mariadb"], indirect=True)
on_sqlite = pytest.mark.parametrize("site", ["sqlite"], indirect=True)
OWN = "tests.functional.behaviour.own_drivers"


@dataclass
class Order:
    """What was asked for, by how it has to end."""

    active: list[str] = field(default_factory=list)
    error: list[str] = field(default_factory=list)

    @property
    def uuids(self) -> list[str]:
        """All."""
        return [*self.active, *self.error]


class Site:
    """A deployment whose notifications and reports are listened to."""

    def __init__(self, deployment: Deployment, desk: Desk, rabbit: RabbitServer, vhost: str) -> None:
        self.rabbit, self.vhost = rabbit, vhost
        self.deployment = deployment
        self.desk = desk
        self.daemon = deployment.daemon()
        self.agents = {
            name: deployment.agent(name, memory_mb=HOST_MB, vcpus=64, local_gb=2000, build_seconds=0.01)
            for name in AGENTS
        }
        until(lambda: len(deployment.hosts()) == len(AGENTS), "all agents have reported")
        self.heard: list[dict[str, Any]] = []

    def boot(self, request: Request) -> None:
        """One cast."""
        api = self.deployment.api
        api.run_instance(
            request.context, request.spec, "pass", [], None, True, request.filter_properties, False
        )

    def order(self, count: int) -> Iterator[Order]:
        """Ask for ``count`` instances, thirty at a time: singles, a batch, builds that fail, and what fits nowhere."""
        order = Order()
        for _ in range(count // 30):
            for request in (
                *(Request(memory_mb=MEMORY_MB) for _ in range(16)),
                Request(count=10, memory_mb=MEMORY_MB),
            ):
                self.boot(request)
                order.active += request.uuids
            for failures, ends in (("1", order.active), ("9", order.error)):
                request = Request(memory_mb=MEMORY_MB, metadata={"fail_attempts": failures})
                self.boot(request)
                ends += request.uuids
            request = Request(count=2, memory_mb=HUGE_MB)
            self.boot(request)
            order.error += request.uuids
            yield order

    def ended(self, uuids: list[str], seconds: float = 60.0) -> dict[str, dict[str, Any]]:
        """Rows of these instances once all have ended."""
        self.states = lambda: [self.deployment.instances().get(uuid, {}).get("vm_state") for uuid in uuids]

        def is_over() -> bool:
            found = self.deployment.instances()
            return all(found.get(uuid, {}).get("vm_state") in FINAL for uuid in uuids)

        until(
            is_over,
            lambda: f"all end: {sum(state in FINAL for state in self.states())} of {len(uuids)}",
            seconds,
        )
        found = self.deployment.instances()
        return {uuid: found[uuid] for uuid in uuids}

    def listen(self) -> list[dict[str, Any]]:
        """All events and reports so far."""
        self.heard += [dict(one.message) for one in self.desk.drain(0.3)]
        return self.heard

    def failed(self) -> list[str]:
        """Instances of the ERROR events, each event counted once."""
        events = [one for one in self.listen() if one.get("priority") == "ERROR"]
        return sorted({one["message_id"]: one["payload"]["instance_id"] for one in events}.values())

    def guests(self) -> dict[str, str]:
        """Host of every guest, as the agents' last reports say."""
        last: dict[str, list[str]] = {}
        for message in self.listen():
            if message.get("method") == "report_state":
                for node in message["args"]["nodes"]:
                    if node["instances"] is not None:
                        last[message["args"]["service"]["host"]] = node["instances"]
        return {uuid: host for host, uuids in last.items() for uuid in uuids}

    def hosts_of(self, count: int) -> set[str | None]:
        """Hosts that ``count`` new instances get."""
        request = Request(count=count, memory_mb=MEMORY_MB)
        self.boot(request)
        return {row["host"] for row in self.ended(request.uuids).values()}


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, rabbit: RabbitServer) -> Iterator[Site]:
    """A daemon of two workers, three agents."""
    if request.param == "sqlite":
        yield from _site(rabbit, None)
        return
    with request.getfixturevalue(request.param).database() as url:
        yield from _site(rabbit, url)


def _site(rabbit: RabbitServer, sql_url: str | None) -> Iterator[Site]:
    options = {"DEFAULT": {"workers": WORKERS, "service_down_time": DOWN_SECONDS}}
    with rabbit.vhost() as vhost, Deployment(rabbit.transport_url(vhost), sql_url, options) as deployment:
        deployment.sync()
        with Desk(rabbit.port, vhost) as desk:
            for queue in ("notifications.info", "notifications.error"):
                desk.queue(queue)
            desk.copy("scheduler_report", "reports-too")
            desk.listen(["notifications.info", "notifications.error", "reports-too"])
            yield Site(deployment, desk, rabbit, vhost)


@everywhere
def test_every_instance_ends_and_all_numbers_agree(site: Site) -> None:
    """The daemon is stopped by SIGTERM in the middle and started again: nothing is lost, and nothing is done twice.

    300 instances on SQLite, 60 on the servers.
    """
    count = 300 if site.deployment.sql_url.startswith("sqlite") else 60
    orders = site.order(count)
    for _ in range(count // 60):
        next(orders)
    terminate(site.daemon)
    (order,) = [*orders][-1:]
    site.daemon.start()
    rows = site.ended(order.uuids)

    states = {uuid: row["vm_state"] for uuid, row in rows.items()}
    assert states == {**dict.fromkeys(order.active, "active"), **dict.fromkeys(order.error, "error")}
    on_hosts = {uuid: rows[uuid]["host"] for uuid in order.active}
    until(lambda: site.guests() == on_hosts, "the agents report the guests that SQL has")

    until(lambda: site.failed() == sorted(order.error), "there is one distinct ERROR event for each")
    events = [one for one in site.listen() if "event_type" in one]
    placed: dict[str, str] = {}
    for event in events:
        if event["event_type"] == "scheduler.run_instance.scheduled":
            placed[event["payload"]["instance_id"]] = event["payload"]["weighted_host"]["host"]
    assert {uuid: placed[uuid] for uuid in order.active} == on_hosts

    def is_held() -> bool:
        hosts = site.deployment.hosts().values()
        return not any(host["claimed_memory_mb"] for host in hosts)

    until(is_held, "the agents' numbers contain all claims")
    used = {name: row["used_memory_mb"] for name, row in site.deployment.hosts().items()}
    assert used == {name: MEMORY_MB * list(on_hosts.values()).count(name) for name in AGENTS}


@on_sqlite
def test_a_killed_worker_is_replaced_and_its_messages_are_not_lost(site: Site) -> None:
    """SIGKILL for one of the two while it works: the parent forks another, every instance ends."""
    before = {process.pid for process in site.deployment.workers(site.daemon)}
    requests = [Request(memory_mb=MEMORY_MB) for _ in range(20)]
    for number, request in enumerate(requests):
        if number == 10:
            os.kill(min(before), signal.SIGKILL)
        site.boot(request)
    rows = site.ended([uuid for request in requests for uuid in request.uuids])
    assert {row["vm_state"] for row in rows.values()} == {"active"}

    def is_whole() -> bool:
        now = [
            process.pid
            for process in site.deployment.workers(site.daemon)
            if process.status() != psutil.STATUS_ZOMBIE
        ]
        return len(now) == len(before) and set(now) != before

    until(is_whole, "there are two workers again")


@on_sqlite
def test_sighup_takes_another_driver_and_a_wrong_file_changes_nothing(site: Site) -> None:
    """All workers decide with the new driver from their next batch on; a file with a mistake is named and not taken."""
    deployment = site.deployment

    def reload(said: str, times: int, **options: str) -> None:
        before = deployment.log(site.daemon).count(said)
        deployment.write("nova-sched.conf", {"DEFAULT": options})
        os.kill(site.daemon.pid or 0, signal.SIGHUP)
        until(
            lambda: deployment.log(site.daemon).count(said) >= before + times,
            lambda: f"{said}:\n{site.daemon.log_tail(30)}",
        )

    reload(
        "deciding with the new settings: always_the_last", WORKERS, scheduler_driver=f"{OWN}.AlwaysTheLast"
    )
    (only,) = {host for _ in range(4) for host in site.hosts_of(1)}
    assert only in deployment.hosts()
    reload("does.not.Exist", WORKERS, scheduler_driver="does.not.Exist")
    assert site.hosts_of(3) == {only}
    reload("deciding with the new settings: filter", WORKERS)
    assert len(site.hosts_of(6)) > 1


@on_sqlite
def test_a_dead_agent_is_not_chosen_once_it_counts_as_down(site: Site) -> None:
    """SIGKILL for the emptiest host: within ``service_down_time`` nothing new goes there."""
    hosts = site.deployment.hosts()
    emptiest = min(AGENTS, key=lambda name: hosts[name]["used_memory_mb"])
    site.agents[emptiest].kill()

    def is_down() -> bool:
        request = Request(memory_mb=MEMORY_MB)
        api = site.deployment.api
        record = api.explain(request.context, request.spec, request.filter_properties)
        return "ComputeFilter" in record["explanation"]["rounds"][0].get("refused", {})

    until(is_down, "the host counts as down")
    assert site.hosts_of(6) == {*AGENTS} - {emptiest}
    site.agents[emptiest].start()
    until(lambda: not is_down(), "it is up again")


@on_sqlite
def test_a_start_after_a_long_outage_hears_the_agents_before_it_decides(site: Site) -> None:
    """Every host counts as down by what SQL says; the reports that waited are applied before the build that waited."""
    terminate(site.daemon)
    with site.deployment.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE sched_services SET heartbeat_at = heartbeat_at - 100000")
    request = Request(memory_mb=MEMORY_MB)
    site.boot(request)
    site.daemon.start()
    (row,) = site.ended(request.uuids).values()
    assert row["vm_state"] == "active"


@on_sqlite
def test_the_daemon_ends_in_good_order(site: Site) -> None:
    """SIGTERM twice within a millisecond while idle: the end comes at once, without a traceback, and leaves nobody."""
    children = site.deployment.workers(site.daemon)
    pid = site.daemon.pid or 0
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGTERM)
    until(lambda: not site.daemon.running, "the daemon ends", 10.0)
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    log = site.deployment.log(site.daemon)
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:3000]
    site.daemon.start()


@everywhere
def test_nothing_is_left_in_the_queues(site: Site) -> None:
    """When all is done the topics are empty and no event waits in the outbox."""
    site.hosts_of(1)
    outbox = Outbox(site.deployment.database)
    until(lambda: outbox.size() == 0, "the outbox is empty")
    queues = site.rabbit.queues(site.vhost)
    assert queues["scheduler"]["messages"] == 0
    assert queues.get("scheduler.dead_letter", {"messages": 0})["messages"] == 0
