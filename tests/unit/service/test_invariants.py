"""Whatever dies, whenever, in whatever order: the contract's invariants hold at the end (and the amounts all the way)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nova_sched.errors import BusUnavailable, StoreUnavailable
from nova_sched.model.messages import Cast, Delivery
from nova_sched.model.request import SchedulingRequest
from nova_sched.model.states import ClaimState
from nova_sched.service.ports import CRASH_POINTS
from nova_sched.testing.fakes import Crashed, Message, RecordingBus
from tests.unit.service.world import World, build, uuid_of

INSTANCES = 8
HOSTS = ("h1", "h2", "h3")
FAULTS = (
    None,
    None,
    *CRASH_POINTS,
    "prior",
    "commit",
    "sent",
    "end_claim",
    "forgets",
    "away",
    "silent",
    "deaf",
)
HELD = (StoreUnavailable, BusUnavailable, Crashed)


class Queues(RecordingBus):
    """A bus that notes which build reached which host, and whether its claim lived then."""

    def __init__(self, world: World) -> None:
        super().__init__(self._arrive)
        self.deaf = False
        """Nothing arrives and no word comes back."""
        self.reached: set[tuple[str, int]] = set()
        self._world = world
        self.arrived: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.without_claim: list[str] = []

    def _arrive(self, message: Message) -> Delivery | None:
        if isinstance(message, Cast) and self.deaf:
            return Delivery.UNKNOWN
        if isinstance(message, Cast) and message.server not in self.dead_hosts:
            assert message.server is not None
            uuid = message.arguments["instance"]["uuid"]
            attempt = message.arguments["filter_properties"]["retry"]["num_attempts"]
            self.arrived[uuid, attempt].add(message.server)
            self.reached.add((uuid, attempt))
            claim = self._world.db.claims.get((uuid, attempt))
            if (
                claim is None
                or not claim.row.live
                or self._world.db.hosts[claim.row.host_id]["host"] != message.server
            ):
                self.without_claim.append(f"{uuid} {attempt} {message.server}")
        return None

    def lose_queue(self, host: str) -> None:
        """The host's queue goes, with every build in it that no agent has taken."""
        self.dead_hosts.add(host)
        for key, servers in self.arrived.items():
            claim = self._world.db.claims.get(key)
            if claim is None or claim.row.state is ClaimState.CLAIMED:
                servers.discard(host)


class Contract(RuleBasedStateMachine):
    """Two workers, a database, a broker and everything that may happen to them."""

    @initialize()
    def start(self) -> None:
        self.world = World(hosts=len(HOSTS))
        self.world.bus = Queues(self.world)
        self.world.start_process()
        self.unacknowledged: list[SchedulingRequest] = []
        self.sent: list[SchedulingRequest] = []
        self.asked: set[str] = set()

    @rule(
        numbers=st.lists(st.integers(1, INSTANCES), min_size=1, max_size=4, unique=True),
        memory_mb=st.sampled_from([2048, 6144, 16384, 10**6]),
    )
    def cast(self, numbers: list[int], memory_mb: int) -> None:
        """A client casts run_instance; a uuid it used before is sent with what it asked then."""
        fresh = [number for number in numbers if uuid_of(number) not in self.asked]
        if fresh:
            self._send(build(*fresh, memory_mb=memory_mb))

    @rule(data=st.data())
    def reschedule(self, data: st.DataObject) -> None:
        """A build failed at its host, which asks for another one."""
        built = [claim for claim in self.world.db.claims.values() if claim.row.state is ClaimState.BUILDING]
        if built:
            claim = data.draw(st.sampled_from(built))
            host = self.world.db.hosts[claim.row.host_id]
            number = int(claim.row.uuid[:8])
            self._send(build(number, attempt=claim.row.attempt + 1, tried=((host["host"], host["node"]),)))

    @rule(data=st.data())
    def duplicate(self, data: st.DataObject) -> None:
        """The broker delivers something once more."""
        if self.sent:
            self.unacknowledged.append(data.draw(st.sampled_from(self.sent)))

    @rule(most=st.integers(1, 5), fault=st.sampled_from(FAULTS), nth=st.integers(1, 2))
    def work(self, most: int, fault: str | None, nth: int) -> None:
        """A worker takes a batch and ends it, unless something dies or goes away in the middle."""
        world = self.world
        if fault in CRASH_POINTS:
            world.crash.arm(fault, nth)
        elif fault in ("away", "silent", "deaf"):
            setattr(world.bus, fault, True)
        elif fault == "forgets":
            world.store.forgets = True
        elif fault is not None:
            world.store.away = {fault}
        self._run(self.unacknowledged[:most])
        world.crash.arm(None)
        world.bus.away = world.bus.silent = world.bus.deaf = world.store.forgets = False
        world.store.away = set()

    @rule(host=st.sampled_from(HOSTS), times=st.integers(1, 20))
    def rival(self, host: str, times: int) -> None:
        """Others take the room first, so guards refuse."""
        self.world.store.lost[host] = times

    @rule(host=st.sampled_from(HOSTS))
    def lose_queue(self, host: str) -> None:
        """A compute's queue disappears."""
        self.world.bus.lose_queue(host)

    @rule(host=st.sampled_from(HOSTS))
    def compute_returns(self, host: str) -> None:
        """It is there again."""
        self.world.bus.dead_hosts.discard(host)

    @rule(number=st.integers(1, INSTANCES))
    def delete(self, number: int) -> None:
        """The user changed their mind."""
        if uuid_of(number) in self.asked:
            self.world.db.delete_instance(uuid_of(number))

    @rule(number=st.integers(1, INSTANCES), state=st.sampled_from([ClaimState.BUILDING, ClaimState.HELD]))
    def agent_reports(self, number: int, state: ClaimState) -> None:
        """An agent got a build and says so."""
        for claim in self.world.db.live(uuid_of(number)):
            host = self.world.db.hosts[claim.row.host_id]["host"]
            if host in self.world.bus.arrived[claim.row.key] and claim.row.state is ClaimState.CLAIMED:
                if state is ClaimState.HELD:
                    continue
                self.world.db.say(*claim.row.key, state)

    @rule(seconds=st.sampled_from([1.0, 100.0, 160.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        """Time passes; upkeep ends what outlived its claim."""
        self.world.time.advance(seconds)
        self._upkeep()

    @invariant()
    def no_host_is_oversold(self) -> None:
        """For every host and commit, guarded claims stay within the limit, and sums are those of the live claims."""
        if not hasattr(self, "world"):
            return
        for host in self.world.db.hosts.values():
            assert host["claimed_memory_mb"] <= host["memory_mb"]
            rows = [claim.row for claim in self.world.db.claims.values()]
            counted = [row for row in rows if row.host_id == host["id"] and row.counted]
            assert host["claimed_memory_mb"] == sum(row.amounts.memory_mb for row in counted)

    def teardown(self) -> None:
        """Everything heals, everything is delivered to its end; then the contract must have been kept."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.bus.dead_hosts.clear()
        world.store.lost.clear()
        self._run(self.unacknowledged)
        assert self.unacknowledged == []
        for claim in world.db.claims.values():
            assert not claim.row.live or claim.row.key in world.bus.reached, (
                f"{claim.row.key} was claimed but never cast"
            )
        world.time.advance(1000.0)
        self._upkeep()
        assert world.bus.without_claim == []
        for key, servers in world.bus.arrived.items():
            assert len(servers) <= 1, f"{key} was sent to {servers}"
        for key, ids in world.db.events.items():
            assert len(ids) == 1, f"{key} has the events {ids}"
        for uuid in self.asked:
            self._ended(uuid)

    def _ended(self, uuid: str) -> None:
        row = self.world.db.instances[uuid]
        live = self.world.db.live(uuid)
        if row.deleted:
            assert all(claim.row.state is not ClaimState.CLAIMED for claim in live)
        elif row.vm_state == "error":
            assert live == []
            assert any(fault[0] == uuid for fault in self.world.db.faults)
            assert (uuid, row.attempt) in self.world.db.events
        else:
            (claim,) = live
            assert claim.row.attempt == row.attempt

    def _send(self, request: SchedulingRequest) -> None:
        self.asked.update(request.uuids)
        self.sent.append(request)
        self.unacknowledged.append(request)

    def _run(self, requests: Sequence[SchedulingRequest]) -> None:
        requests = list(requests)
        try:
            tickets = self.world.run(*requests)
        except HELD:
            self.world.start_process()
            return
        assert all(ticket.done for ticket in tickets)
        for ticket in tickets:
            assert ticket.result() is None
        self.unacknowledged = self.unacknowledged[len(requests) :]

    def _upkeep(self) -> None:
        for claim in list(self.world.db.claims.values()):
            age = self.world.time.seconds - claim.made_at
            if claim.row.state is ClaimState.CLAIMED and age >= claim.ttl_seconds:
                self.world.db.expire(*claim.row.key)


Contract.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestContract = Contract.TestCase
