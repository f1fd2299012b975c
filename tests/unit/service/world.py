"""A whole service in one process: real driver and messages, a database in memory, a bus that remembers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from nova_sched.drivers.chance import ChanceDriver
from nova_sched.drivers.filtering import FilterDriver
from nova_sched.hosts.schema import HostDelta
from nova_sched.hosts.table import HostTable
from nova_sched.model.messages import Cast
from nova_sched.model.request import SchedulingRequest
from nova_sched.model.states import ClaimState, EndReason
from nova_sched.service.batch import Batch
from nova_sched.service.ports import DecisionRecord, Failed, Outcome, Placed, Verdict, VerdictKind
from nova_sched.service.refresh import HostRefresher
from nova_sched.service.tickets import Ticket
from nova_sched.settings import BusSettings, DeliverySettings, FilterSettings, SchedulerSettings, Settings
from nova_sched.testing.fakes import CountingObserver, CrashAt, ManualClock, RecordingBus, RefusingStore
from nova_sched.testing.rows import MemoryClaim
from nova_sched.testing.store import MemoryStore
from nova_sched.wire import inbound
from nova_sched.wire.outbound import Outbound

SCHEDULER = SchedulerSettings(
    filters=FilterSettings(
        enabled=("RetryFilter", "ComputeFilter", "RamFilter", "CoreFilter", "ServerGroupAntiAffinityFilter"),
        ram_allocation_ratio=1.0,
        cpu_allocation_ratio=1.0,
    )
)
SETTINGS = Settings(scheduler=SCHEDULER)


def uuid_of(number: int) -> str:
    """The uuid of the ``number``-th instance."""
    return f"{number:08d}-0000-4000-8000-000000000000"


class Database(MemoryStore):
    """The store in memory, and what tests ask of it beside the contract.

    ``faults``: (uuid, reason, traceback) of every failure. ``events``: message ids of ERROR events by (uuid, attempt).
    ``ended``: claims that gave way to another one of the same key. ``reads``: kinds of host reads, in order.
    """

    def __init__(self, time: ManualClock) -> None:
        super().__init__(lambda: time.seconds)
        self.faults: list[tuple[str, str, str | None]] = []
        self.events: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.ended: list[MemoryClaim] = []
        self.reads: list[str] = []

    def commit(self, outcomes: Sequence[Outcome], records: Sequence[DecisionRecord] = ()) -> list[Verdict]:
        replaced = {key: claim for key, claim in self.claims.items() if claim.row.live}
        verdicts = super().commit(outcomes, records)
        for outcome, verdict in zip(outcomes, verdicts, strict=True):
            if verdict.kind is not VerdictKind.COMMITTED:
                continue
            if isinstance(outcome, Placed) and outcome.replaces_host_id is not None:
                self.ended.append(replaced[outcome.key])
            elif isinstance(outcome, Failed):
                uuid = outcome.instance.uuid or ""
                self.faults.append((uuid, outcome.reason, outcome.traceback))
                if outcome.event is not None:
                    self.events[uuid, outcome.request.attempt].add(outcome.event.message_id)
        return verdicts

    def read_delta(self, cursor: Any | None) -> HostDelta:
        self.reads.append("full" if cursor is None else "delta")
        return super().read_delta(cursor)

    def read_rows(self, host_ids: Collection[int]) -> HostDelta:
        self.reads.append("rows")
        return super().read_rows(host_ids)

    def named(self, host: str) -> dict[str, Any]:
        """The row of a host."""
        return next(row for row in self.hosts.values() if row["host"] == host)

    def claimed_mb(self, host: str) -> int:
        """RAM that claims hold on a host."""
        claimed: int = self.named(host)["claimed_memory_mb"]
        return claimed

    def live(self, uuid: str) -> list[MemoryClaim]:
        """Live claims for one instance."""
        return [claim for claim in self.claims.values() if claim.row.guest_uuid == uuid and claim.row.live]

    def say(self, uuid: str, attempt: int, state: ClaimState) -> None:
        """An agent's word about a claim."""
        claim = self.claims.get((uuid, attempt))
        if claim is not None and claim.row.live:
            if state is ClaimState.HELD and claim.row.counted:
                self.end_claim(uuid, attempt, claim.row.host_id, EndReason.OPERATOR)
                claim.row.ended_reason = None
            claim.row.state = state

    def expire(self, uuid: str, attempt: int) -> None:
        """Upkeep: the claim's life is over, the instance ends in ERROR with its event."""
        claim = self.claims[uuid, attempt]
        self.end_claim(uuid, attempt, claim.row.host_id, EndReason.EXPIRED)
        self.instances[uuid].vm_state = "error"
        self.faults.append((uuid, "expired", None))
        self.events[uuid, attempt].add(f"expired {uuid} {attempt}")


class World:
    """``db``, ``bus``, ``store`` (refuses on demand), ``crash`` and ``time``; hosts h1…hn of 8 vCPUs and 16 GB."""

    def __init__(
        self, hosts: int = 3, *, driver: Any = None, delivery: DeliverySettings | None = None
    ) -> None:
        self.time = ManualClock()
        self.db = Database(self.time)
        for number in range(1, hosts + 1):
            self.add_host(f"h{number}", memory_mb=16384 + 1024 * (hosts - number))
        self.bus = RecordingBus()
        self.store = RefusingStore(self.db)
        self.crash = CrashAt()
        self.observer = CountingObserver()
        self.driver = driver or FilterDriver.from_settings(SCHEDULER)
        self.delivery = delivery or DeliverySettings()
        self.start_process()

    def start_process(self) -> None:
        """A fresh worker over the same database and broker."""
        self.hosts = HostRefresher(self.db, HostTable(), clock=self.time.clock, observer=self.observer)
        self.batch = Batch(
            driver=self.driver,
            hosts=self.hosts,
            facts=self.db,
            store=self.store,
            bus=self.bus,
            messages=Outbound(BusSettings(host="sched-1")),
            delivery=self.delivery,
            observer=self.observer,
            clock=self.time.clock,
            crash_point=self.crash,
        )

    def run(self, *requests: SchedulingRequest) -> list[Ticket]:
        """Submit and run one batch."""
        tickets = [self.batch.submit(request) for request in requests]
        self.batch.run()
        return tickets

    def add_host(self, name: str, memory_mb: int) -> None:
        """An empty host."""
        self.db.add_host(
            name, f"{name}.node", vcpus=8, memory_mb=memory_mb, free_ram_mb=memory_mb, memory_mb_used=0, vcpus_used=0,
            local_gb=1000, free_disk_gb=1000, local_gb_used=0,
        )  # fmt: skip

    def add_group(self, name: str, policy: str = "anti-affinity") -> None:
        """A server group that requests may hint at by name."""
        self.db.add_group(name, name, {policy})

    def casts_of(self, number: int) -> list[Cast]:
        """Build casts that reached a queue for one instance."""
        return [cast for cast in self.bus.casts if cast.arguments["instance"]["uuid"] == uuid_of(number)]

    def host_of(self, number: int) -> str | None:
        """Host of the one live claim of an instance; None when it has none."""
        live = self.db.live(uuid_of(number))
        assert len(live) <= 1
        return self.db.hosts[live[0].row.host_id]["host"] if live else None

    def counted(self, *labels: str) -> int:
        """A counter of the loop."""
        return self.observer.counts[labels]


def message(
    *numbers: int,
    memory_mb: int = 2048,
    vcpus: int = 1,
    attempt: int = 1,
    tried: tuple[tuple[str, str], ...] = (),
    hints: dict[str, Any] | None = None,
    **filter_properties: Any,
) -> dict[str, Any]:
    """Arguments of run_instance for the instances of these numbers."""
    flavor = {"id": 1, "name": "small", "flavorid": "1", "memory_mb": memory_mb, "vcpus": vcpus, "root_gb": 1,
              "ephemeral_gb": 0, "swap": 0, "extra_specs": {}}  # fmt: skip
    properties = {"project_id": "project-1", "memory_mb": memory_mb, "vcpus": vcpus, "root_gb": 1, "ephemeral_gb": 0,
                  "vm_state": "building", "task_state": "scheduling", "user_data": "c2VjcmV0"}  # fmt: skip
    if attempt > 1:
        filter_properties["retry"] = {"num_attempts": attempt - 1, "hosts": [list(pair) for pair in tried]}
    return {
        "request_spec": {
            "image": {"id": "image-1", "properties": {}},
            "instance_properties": properties,
            "instance_type": flavor,
            "instance_uuids": [uuid_of(number) for number in numbers],
        },
        "filter_properties": {"scheduler_hints": hints or {}, "instance_type": flavor, **filter_properties},
        "admin_password": "hush",
        "injected_files": [],
        "requested_networks": None,
        "is_first_time": True,
        "legacy_bdm_in_spec": False,
    }


CONTEXT = {
    "request_id": "req-1",
    "user_id": "user-1",
    "project_id": "project-1",
    "roles": ["member"],
    "auth_token": "tok",
}


def build(*numbers: int, settings: Settings = SETTINGS, **how: Any) -> SchedulingRequest:
    """A run_instance request; ``how`` as for :func:`message`."""
    return inbound.run_instance(CONTEXT, message(*numbers, **how), settings)


def select(*numbers: int, settings: Settings = SETTINGS, **how: Any) -> SchedulingRequest:
    """A select_destinations request."""
    arguments = message(*numbers, **how)
    arguments = {key: arguments[key] for key in ("request_spec", "filter_properties")}
    return inbound.select_destinations(CONTEXT, arguments, settings)


def resize(number: int, vm_state: str = "active", **how: Any) -> SchedulingRequest:
    """A prep_resize request."""
    given = message(number, **how)
    arguments = {
        "image": {},
        "request_spec": given["request_spec"],
        "filter_properties": given["filter_properties"],
        "instance": {"uuid": uuid_of(number), "vm_state": vm_state},
        "instance_type": given["filter_properties"]["instance_type"],
        "reservations": [],
    }
    return inbound.prep_resize(CONTEXT, arguments, SETTINGS)


def chance() -> ChanceDriver:
    """The driver that draws."""
    return ChanceDriver.from_settings(SCHEDULER)
