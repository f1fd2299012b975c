"""Parts of the agent library, each without a bus."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from nova_sched.agent import BuildError, ComputeManager, Guest, Outbox, Reporter, SimulatedHypervisor
from nova_sched.agent.reading import MalformedBuild, guest_of, unmet_limits
from nova_sched.agent.reporter import next_epoch
from nova_sched.errors import BusUnavailable


class Bus:
    """Both clients of an agent: remembers what is sent, and is away when told so."""

    def __init__(self) -> None:
        self.away = False
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def _send(self, method: str, arguments: Mapping[str, Any]) -> None:
        if self.away:
            raise BusUnavailable("away")
        self.sent.append((method, dict(arguments)))

    def run_instance(self, context: Mapping[str, Any], **arguments: Any) -> None:
        """A build that comes back."""
        self._send("run_instance", arguments)

    def report_state(self, context: Mapping[str, Any], service: Any, nodes: Any) -> None:
        """A heartbeat."""
        self._send("report_state", {"service": service, "nodes": nodes})

    def update_instance(self, context: Mapping[str, Any], **arguments: Any) -> None:
        """What became of a build."""
        self._send("update_instance", arguments)

    @property
    def updates(self) -> list[tuple[str, int]]:
        """(state, attempt) in order."""
        return [(args["state"], args["attempt"]) for method, args in self.sent if method == "update_instance"]


def guest(uuid: str = "u-1", attempt: int = 1, memory_mb: int = 1024, **values: Any) -> Guest:
    """A small guest."""
    return Guest(uuid, attempt, 1, memory_mb, 10 * 1024, **values)


def instance(uuid: str = "u-1", **values: Any) -> dict[str, Any]:
    """The row of a small guest."""
    return {"uuid": uuid, "memory_mb": 1024, "vcpus": 1, "root_gb": 10, "ephemeral_gb": 0, **values}


def hypervisor(**values: Any) -> SimulatedHypervisor:
    """A machine that builds at once."""
    return SimulatedHypervisor(**{"build_seconds": 0.0, **values})


@pytest.fixture
def bus() -> Bus:
    """A bus that is there."""
    return Bus()


@pytest.fixture
def outbox():
    """A running outbox."""
    made = Outbox()
    made.start()
    yield made
    made.stop(timeout_seconds=0.1)


@pytest.fixture
def manager(bus, outbox):
    """An endpoint with a machine of 4 GB."""
    made = ComputeManager(
        host="h1",
        node="n1",
        hypervisor=hypervisor(memory_mb=4096),
        scheduler=bus,
        reports=bus,
        outbox=outbox,
        soon=lambda: None,
    )
    yield made
    made.stop()


class TestHypervisor:
    """The simulated machine."""

    def test_numbers_and_guests_are_of_one_moment(self):
        """What is in use is what the listed guests take."""
        machine = hypervisor(memory_mb=4096)
        machine.reserve(guest())
        values, guests = machine.report()
        assert guests == {"u-1"}
        assert (values["memory_mb_used"], values["free_ram_mb"], values["local_gb_used"]) == (1024, 3072, 10)

    def test_overcommitment_is_allowed_but_no_guest_larger_than_the_machine(self):
        """Free memory may be negative."""
        machine = hypervisor(memory_mb=1024)
        machine.reserve(guest("u-1"))
        machine.reserve(guest("u-2"))
        assert machine.report()[0]["free_ram_mb"] == -1024
        with pytest.raises(BuildError, match="2048 MB of memory, the machine has 1024"):
            machine.reserve(guest("u-3", memory_mb=2048))

    def test_the_same_build_ends_alike_whatever_else_is_built(self):
        """Failures are drawn from seed, name, uuid and attempt."""

        def failed(order: list[str]) -> set[str]:
            machine, found = hypervisor(failure_rate=0.5, seed=7), set()
            for uuid in order:
                machine.reserve(guest(uuid))
                try:
                    machine.build(guest(uuid))
                except BuildError:
                    found.add(uuid)
            return found

        uuids = [f"u-{number}" for number in range(40)]
        assert failed(uuids) == failed(uuids[::-1])
        assert 5 < len(failed(uuids)) < 35

    @pytest.mark.parametrize(("rate", "fails"), [(0.0, False), (1.0, True)])
    def test_a_rate_of_none_and_all_is_kept(self, rate, fails):
        """The room of a failed build is free again."""
        machine = hypervisor(failure_rate=rate)
        machine.reserve(guest())
        if fails:
            with pytest.raises(BuildError):
                machine.build(guest())
        else:
            machine.build(guest())
        assert bool(machine.report()[1]) is not fails

    def test_metadata_can_ask_for_failing_attempts(self):
        """So a demonstration can show a reschedule."""
        for attempt, fails in ((1, True), (2, False)):
            machine, asked = hypervisor(), guest(attempt=attempt, metadata={"fail_attempts": "1"})
            machine.reserve(asked)
            if fails:
                with pytest.raises(BuildError):
                    machine.build(asked)
            else:
                machine.build(asked)


class TestReading:
    """What is read of a build cast."""

    def test_rows_and_dictionaries_are_both_read(self):
        """metadata comes as rows from Juno-like schedulers."""
        rows = [{"key": "a", "value": "1"}]
        for metadata in (rows, {"a": "1"}):
            assert guest_of(instance(metadata=metadata), {}).metadata == {"a": "1"}

    def test_the_attempt_is_as_counted_by_the_scheduler(self):
        """Forced placement is always the first, whatever retry data travelled along."""
        retry = {"num_attempts": 3, "hosts": []}
        assert guest_of(instance(), {"filter_properties": {"retry": retry}}).attempt == 3
        assert guest_of(instance(), {"filter_properties": {}}).attempt == 1
        assert (
            guest_of(instance(), {"filter_properties": {"retry": retry, "force_hosts": ["h"]}}).attempt == 1
        )

    def test_a_resize_has_the_sizes_of_its_flavor(self):
        """What the flavor says overrules the instance."""
        assert guest_of(instance(), {}, sizes={"memory_mb": 4096}).memory_mb == 4096

    @pytest.mark.parametrize(
        "value", [None, [], {}, {"uuid": 7}, {"uuid": "u", "vcpus": -1}, {"uuid": "u", "vcpus": True}]
    )
    def test_casts_without_a_readable_instance_are_malformed(self, value):
        """They are put aside by the server."""
        with pytest.raises(MalformedBuild):
            guest_of(value, {})

    def test_every_unmet_limit_is_named_with_its_numbers(self):
        """All in one message (LP#1212768); a limit that is reached exactly is kept."""
        machine = hypervisor()
        machine.reserve(guest("u-0"))
        limits = {"memory_mb": 2047.0, "vcpu": 2.0, "disk_gb": 19}
        assert unmet_limits(guest(), machine.usage(), limits) == [
            "1024 MB of memory used, 1024 asked, limit 2047",
            "10 GB of disk used, 10 asked, limit 19",
        ]
        assert unmet_limits(guest(), machine.usage(), {}) == []


class TestManager:
    """The endpoint."""

    def test_rescheduling_keeps_the_count_and_masks_secrets_in_the_reason(self, manager, bus):
        """The scheduler counts; this host's limits stay here."""
        retry = {"num_attempts": 2, "hosts": [["h0", "n0"], ["h1", "n1"]]}
        manager.run_instance(
            {"project_id": "p"},
            instance=instance(),
            request_spec={"instance_uuids": ["u-1"], "num_instances": 5},
            filter_properties={"retry": retry, "limits": {"memory_mb": 1.0}, "scheduler_hints": {"a": "b"}},
            admin_password="pw",
        )
        manager.end_batch()
        ((method, sent),) = bus.sent
        assert method == "run_instance"
        assert sent["filter_properties"].keys() == {"retry", "scheduler_hints"}
        assert sent["filter_properties"]["retry"]["num_attempts"] == 2
        assert sent["filter_properties"]["retry"]["hosts"] == retry["hosts"]
        assert "limit 1" in sent["filter_properties"]["retry"]["exc"][0]
        assert (sent["request_spec"]["num_instances"], sent["admin_password"]) == (1, "pw")

    def test_the_last_allowed_attempt_is_reported_as_failed(self, manager, bus):
        """Instead of one more message to the scheduler."""
        retry = {"num_attempts": 3, "hosts": []}
        manager.run_instance(
            {}, instance=instance(), filter_properties={"retry": retry, "limits": {"vcpu": 0.0}}
        )
        manager.end_batch()
        assert bus.updates == [("failed", 3)]

    def test_nothing_is_acknowledged_before_it_is_told(self, manager, bus, monkeypatch):
        """With the bus away the batch is held."""
        monkeypatch.setattr("nova_sched.agent.manager._FLUSH_SECONDS", 0.05)
        bus.away = True
        manager.run_instance({}, instance=instance())
        with pytest.raises(BusUnavailable):
            manager.end_batch()

    def test_a_delete_during_the_build_ends_the_guest(self, bus, outbox):
        """The build is not reported active afterwards."""
        going_on = threading.Event()
        machine = hypervisor(build_seconds=1.0, sleep=lambda _: going_on.wait(10))
        made = ComputeManager(
            host="h1",
            node="n1",
            hypervisor=machine,
            scheduler=bus,
            reports=bus,
            outbox=outbox,
            soon=lambda: None,
        )
        made.run_instance({}, instance=instance())
        made.terminate_instance({}, instance={"uuid": "u-1"})
        going_on.set()
        made.stop()
        assert outbox.flush(5)
        assert bus.updates == [("building", 1), ("deleted", 1)]
        assert machine.report()[1] == frozenset()

    def test_a_hypervisor_that_breaks_is_a_failed_build(self, bus, outbox):
        """Any exception frees the room and sends the build back."""
        machine = hypervisor(sleep=lambda _: 1 / 0)
        made = ComputeManager(
            host="h1",
            node="n1",
            hypervisor=machine,
            scheduler=bus,
            reports=bus,
            outbox=outbox,
            soon=lambda: None,
        )
        made.run_instance(
            {}, instance=instance(), filter_properties={"retry": {"num_attempts": 1, "hosts": []}}
        )
        made.stop()
        assert outbox.flush(5)
        assert [method for method, _ in bus.sent] == ["update_instance", "run_instance"]
        assert "ZeroDivisionError" in bus.sent[1][1]["filter_properties"]["retry"]["exc"][0]
        assert machine.report()[1] == frozenset()

    def test_a_resize_takes_room_once_and_tells_nobody_but_by_numbers(self, manager, bus):
        """The build claim of the instance is another host's."""
        for _ in range(2):
            manager.prep_resize(
                {}, instance=instance(), instance_type={"memory_mb": 2048}, filter_properties={}
            )
        manager.stop()
        assert manager._hypervisor.usage().memory_mb == 2048
        assert bus.sent == []


class TestReporter:
    """Heartbeats."""

    def reporter(self, bus: Bus, machine: SimulatedHypervisor) -> Reporter:
        """A reporter that is driven by hand."""
        return Reporter(bus, machine, host="h1", node="n1", interval_seconds=10.0, epoch=5)

    def test_only_what_changed_is_sent(self, bus):
        """Numbers of the new guest and the list, nothing else."""
        machine = hypervisor()
        reporter = self.reporter(bus, machine)
        reporter.report()
        machine.reserve(guest())
        reporter.report()
        node = bus.sent[1][1]["nodes"][0]
        assert node["full"] is False
        assert node["instances"] == ["u-1"]
        assert set(node["values"]) == {
            "vcpus_used", "memory_mb_used", "local_gb_used", "free_ram_mb", "free_disk_gb", "disk_available_least",
            "running_vms", "stats",
        }  # fmt: skip

    def test_after_a_report_that_was_not_sent_the_next_is_complete(self, bus):
        """The scheduler may have missed anything; numbers are never used twice."""
        reporter = self.reporter(bus, hypervisor())
        reporter.report()
        bus.away = True
        with pytest.raises(BusUnavailable):
            reporter.report()
        bus.away = False
        reporter.report()
        assert [(sent["service"]["seq"], sent["nodes"][0]["full"]) for _, sent in bus.sent] == [
            (0, True),
            (2, True),
        ]

    def test_one_bad_report_does_not_silence_the_host(self, bus):
        """The loop goes on (LP#1517926)."""
        machine = hypervisor()
        reporter = Reporter(bus, machine, host="h1", node="n1", interval_seconds=0.02, epoch=1)
        bus.away = True
        reporter.start()
        time.sleep(0.1)
        bus.away = False
        until = time.monotonic() + 5
        while not bus.sent and time.monotonic() < until:
            time.sleep(0.01)
        reporter.stop()
        assert bus.sent

    def test_the_log_says_once_that_reports_cannot_be_sent_and_once_that_they_can_again(self, bus, caplog):
        """Whoever reads the warning would like to know when it was over."""
        caplog.set_level(logging.INFO, "nova_sched.agent.reporter")
        reporter = Reporter(bus, hypervisor(), host="h1", node="n1", interval_seconds=0.02, epoch=1)
        bus.away = True
        reporter.start()
        time.sleep(0.1)
        bus.away = False
        until = time.monotonic() + 5
        while len(bus.sent) < 3 and time.monotonic() < until:
            time.sleep(0.01)
        reporter.stop()
        told = [record for record in caplog.records if record.name == "nova_sched.agent.reporter"]
        assert [(record.levelname, record.getMessage()) for record in told] == [
            ("WARNING", "reports of h1 cannot be sent, trying on: away"),
            ("INFO", "reports of h1 can be sent again"),
        ]

    def test_epochs_grow_even_if_the_clock_went_back(self, tmp_path):
        """The file remembers; a broken one is replaced."""
        path = tmp_path / "deep" / "state.json"
        first = next_epoch(path, 1000.0)
        assert next_epoch(path, 10.0) == first + 1
        assert next_epoch(path, 2000.0) == 2_000_000
        path.write_text("{", encoding="utf-8")
        assert next_epoch(path, 3000.0) == 3_000_000
        assert json.loads(path.read_text(encoding="utf-8")) == {"epoch": 3_000_000}
        assert next_epoch(None, 1.0) == 1000


class TestOutbox:
    """Messages that wait for the bus."""

    def test_order_is_kept_and_nothing_dropped_while_the_bus_is_away(self, bus, outbox, monkeypatch):
        """Retried until it is back."""
        monkeypatch.setattr("nova_sched.agent.outbox._PAUSE_SECONDS", (0.01, 0.02))
        bus.away = True
        for number in range(3):
            outbox.put(lambda number=number: bus.run_instance({}, number=number))
        assert not outbox.flush(0.1)
        bus.away = False
        assert outbox.flush(5)
        assert [sent["number"] for _, sent in bus.sent] == [0, 1, 2]

    def test_a_message_that_cannot_be_sent_at_all_does_not_block_the_others(self, bus, outbox):
        """A fault of one message is logged and over."""
        outbox.put(lambda: 1 / 0)
        outbox.put(lambda: bus.run_instance({}))
        assert outbox.flush(5)
        assert len(bus.sent) == 1

    def test_stopping_before_starting_is_no_error(self):
        """Start-up may be interrupted."""
        assert Outbox().stop() is True


def test_simulated_hypervisor_counts_guests_and_builds_in_its_statistics():
    """What the filters and weighers of numbers of guests and I/O operations look at."""
    building = threading.Event()
    finish = threading.Event()

    def build_until_told(seconds: float) -> None:
        building.set()
        finish.wait(10)

    hypervisor = SimulatedHypervisor(sleep=build_until_told)
    hypervisor.reserve(guest("u-1"))
    hypervisor.reserve(guest("u-2"))
    thread = threading.Thread(target=hypervisor.build, args=(guest("u-2"),))
    thread.start()
    assert building.wait(10)
    during = json.loads(hypervisor.report()[0]["stats"])
    finish.set()
    thread.join(10)
    after = json.loads(hypervisor.report()[0]["stats"])
    assert during == {"num_instances": 2, "io_workload": 1}
    assert after == {"num_instances": 2, "io_workload": 0}
