"""What every compute agent has to do; each test says one sentence of the protocol."""

from __future__ import annotations

from typing import Any

import pytest

from nova_sched.testing.agent.bed import AgentBed
from nova_sched.testing.agent.conftest import Factory

U1, U2 = "11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"
NUMBERS = {
    "vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used", "free_ram_mb", "free_disk_gb",
}  # fmt: skip


def contains(uuid: str) -> Any:
    """A node whose numbers contain this instance."""
    return lambda node: uuid in (node["instances"] or ())


def omits(uuid: str) -> Any:
    """A node whose numbers do not contain this instance any more."""
    return lambda node: node["instances"] is not None and uuid not in node["instances"]


@pytest.mark.usefixtures("agent")
class TestReports:
    """Topic scheduler_report, report_state."""

    def test_the_first_report_is_complete(self, bed: AgentBed) -> None:
        """It names the node and holds every number, and the list of instances."""
        node = bed.wait_report(lambda node: True, "at all")["nodes"][0]
        assert node["full"] is True
        assert node["hypervisor_hostname"] == bed.node
        assert set(node["values"]) >= NUMBERS
        assert node["instances"] == []
        assert (node["values"]["vcpus"], node["values"]["memory_mb"]) == (bed.vcpus, bed.memory_mb)

    def test_reports_are_numbered_upwards_within_one_epoch(self, bed: AgentBed) -> None:
        """A scheduler can drop what is older than what it has."""
        bed.settle()
        services = [report["service"] for report in bed.heartbeats()]
        assert {service["host"] for service in services} == {bed.host}
        assert len({service["epoch"] for service in services}) == 1
        numbers = [service["seq"] for service in services]
        assert numbers == sorted(set(numbers))

    def test_later_reports_say_what_changed_and_sometimes_everything(self, bed: AgentBed) -> None:
        """Nothing changed: no values and no list; at the latest every tenth report is complete."""
        bed.reports.wait(lambda _: len(bed.heartbeats()) > 12, "twelve reports")
        nodes = [report["nodes"][0] for report in bed.heartbeats()[1:]]
        partial = [node for node in nodes if not node["full"]]
        assert partial
        assert all(node["values"] == {} and node["instances"] is None for node in partial)
        assert any(node["full"] and set(node["values"]) >= NUMBERS for node in nodes)


@pytest.mark.usefixtures("agent")
class TestBuilds:
    """run_instance."""

    def test_a_build_is_told_from_beginning_to_end(self, bed: AgentBed) -> None:
        """building, then active, with attempt, host and node; a report contains the instance."""
        bed.send_build(U1)
        update = bed.wait_update(U1, "active")
        assert (update["host"], update["node"], update["attempt"]) == (bed.host, bed.node, 1)
        assert bed.updates(U1) == [("building", 1), ("active", 1)]
        report = bed.wait_report(contains(U1), f"containing {U1}")
        assert report["nodes"][0]["values"]["memory_mb_used"] == 1024

    def test_the_same_cast_twice_is_one_build(self, bed: AgentBed) -> None:
        """A redelivery changes nothing."""
        bed.send_build(U1)
        bed.send_build(U1)
        bed.wait_update(U1, "active")
        bed.send_build(U1)
        bed.settle()
        assert bed.updates(U1) == [("building", 1), ("active", 1)]

    def test_an_older_attempt_than_known_is_dropped(self, bed: AgentBed) -> None:
        """Late messages of attempts that are over."""
        bed.send_build(U1, retry={"num_attempts": 1, "hosts": [["other", "other"]]})
        bed.wait_update(U1, "active")
        bed.send_build(U1)
        bed.settle()
        assert bed.updates(U1) == [("building", 2), ("active", 2)]

    def test_what_does_not_fit_the_limits_goes_back_to_the_scheduler(self, bed: AgentBed) -> None:
        """retry keeps its count, names this host and says why; no failed is sent; the room stays free."""
        bed.send_build(U1, memory_mb=1024)
        bed.wait_update(U1, "active")
        bed.send_build(U2, memory_mb=1024, limit_mb=2047.0)
        back = bed.wait_back(U2).arguments
        retry = back["filter_properties"]["retry"]
        assert (retry["num_attempts"], retry["hosts"]) == (1, [[bed.host, bed.node]])
        assert retry["exc"]
        assert back["is_first_time"] is False
        bed.settle()
        assert bed.updates(U2) == []
        assert not any(contains(U2)(report["nodes"][0]) for report in bed.heartbeats())

    def test_exactly_the_limit_still_fits(self, bed: AgentBed) -> None:
        """Limits are inclusive."""
        bed.send_build(U1, memory_mb=1024, limit_mb=1024.0)
        bed.wait_update(U1, "active")

    def test_a_failed_build_goes_back_to_the_scheduler_whole(self, bed: AgentBed) -> None:
        """The scheduler gets all it needs to build elsewhere, under the caller's own context."""
        bed.let_fail(U1)
        bed.send_build(U1)
        back = bed.wait_back(U1)
        assert back.arguments["admin_password"] == "kit-secret"
        assert back.arguments["injected_files"] == [["/etc/motd", "a2l0"]]
        assert back.arguments["request_spec"]["instance_type"]["memory_mb"] == 1024
        assert back.arguments["filter_properties"]["retry"]["num_attempts"] == 1
        assert back.context["project_id"] == "project-1"
        bed.wait_report(omits(U1), f"without {U1}")
        assert "failed" not in dict(bed.updates(U1))

    def test_a_failed_build_that_may_not_go_elsewhere_is_reported(self, bed: AgentBed) -> None:
        """Forced placement has no second host."""
        bed.let_fail(U1)
        bed.send_build(U1, force_hosts=[bed.host])
        update = bed.wait_update(U1, "failed")
        assert update["reason"]
        assert bed.scheduler.messages == []


@pytest.mark.usefixtures("agent")
class TestDeletes:
    """terminate_instance."""

    def test_a_deleted_guest_is_told_and_leaves_the_numbers(self, bed: AgentBed) -> None:
        """Room is freed by the report that omits the instance."""
        bed.send_build(U1)
        bed.wait_update(U1, "active")
        bed.wait_report(contains(U1), f"containing {U1}")
        bed.send_terminate(U1)
        assert bed.wait_update(U1, "deleted")["attempt"] == 1
        bed.wait_report(omits(U1), f"without {U1}")

    def test_a_build_that_comes_after_its_deletion_is_dropped(self, bed: AgentBed) -> None:
        """Casts may overtake each other."""
        bed.send_terminate(U1)
        bed.settle()
        bed.send_build(U1)
        bed.settle()
        assert ("active", 1) not in bed.updates(U1)
        assert not any(contains(U1)(report["nodes"][0]) for report in bed.heartbeats())


@pytest.mark.usefixtures("agent")
class TestRobustness:
    """Messages that are wrong or of another release."""

    @pytest.mark.parametrize(
        "arguments", [{}, {"instance": None}, {"instance": {"uuid": U1, "memory_mb": "x"}}]
    )
    def test_a_malformed_cast_does_not_stop_the_agent(self, bed: AgentBed, arguments: dict[str, Any]) -> None:
        """The next build is served."""
        bed.send("run_instance", "3.27", **arguments)
        bed.send_build(U2)
        bed.wait_update(U2, "active")

    def test_unknown_methods_and_versions_do_not_stop_the_agent(self, bed: AgentBed) -> None:
        """They are for somebody else."""
        bed.send("no_such_method", "3.0", x=1)
        bed.send_build(U2)
        bed.wait_update(U2, "active")

    def test_a_build_at_the_oldest_version_is_served(self, bed: AgentBed) -> None:
        """Schedulers that are capped send 3.0."""
        row = {"uuid": U1, "memory_mb": 512, "vcpus": 1, "root_gb": 1, "ephemeral_gb": 0, "metadata": []}
        bed.send("run_instance", "3.0", instance=row, request_spec={}, filter_properties={}, node=bed.node)
        bed.wait_update(U1, "active")


def test_reports_after_a_restart_are_newer_than_those_before(bed: AgentBed, make_agent: Factory) -> None:
    """The epoch grows, so the scheduler takes the new numbers."""
    for _ in range(2):
        agent = make_agent(bed)
        agent.start()
        bed.settle()
        agent.stop()
    epochs = [report["service"]["epoch"] for report in bed.heartbeats()]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 2


def test_a_stopped_agent_has_said_what_became_of_its_builds(bed: AgentBed, make_agent: Factory) -> None:
    """Stopping finishes what was accepted."""
    agent = make_agent(bed)
    agent.start()
    bed.settle()
    bed.send_build(U1)
    bed.wait_update(U1, "building")
    agent.stop()
    bed.wait_update(U1, "active")
