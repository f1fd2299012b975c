"""What an agent under test is given: a bus in the process, and the scheduler's side of it, which remembers all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from oslo_config import cfg

from nova_sched.model.decision import Placement
from nova_sched.model.limits import Limits
from nova_sched.rpc import Target, expose
from nova_sched.rpc.bus.server import BusServer
from nova_sched.rpc.client import RpcClient
from nova_sched.rpc.transport import get_transport, register_options
from nova_sched.settings import BusSettings, Settings
from nova_sched.wire import inbound, validate
from nova_sched.wire.outbound import Outbound

CONTEXT = {
    "request_id": "req-kit",
    "user_id": "user-1",
    "project_id": "project-1",
    "key_of_a_later_release": {"a": 1},
}


class AgentUnderTest(Protocol):
    """What a factory returns."""

    def start(self) -> None:
        """Report and take builds."""
        ...

    def stop(self) -> None:
        """Finish what is in hand and leave."""
        ...


@dataclass(frozen=True, slots=True)
class Heard:
    """One message that the agent sent."""

    method: str
    context: Mapping[str, Any]
    arguments: Mapping[str, Any]


class Ear:
    """Endpoint that remembers every message, and what contradicted the published schemas."""

    patience_seconds = 10.0

    def __init__(self, version: str) -> None:
        self.target = Target(version=version)
        self.messages: list[Heard] = []
        self.faults: list[str] = []
        self._changed = threading.Condition()

    def hear(self, method: str, context: Mapping[str, Any], arguments: dict[str, Any]) -> None:
        """Keep a message."""
        fault = validate.insane(arguments) or validate.fault(method, arguments)
        with self._changed:
            if fault is not None:
                self.faults.append(f"{method}: {fault}")
            self.messages.append(Heard(method, dict(context), arguments))
            self._changed.notify_all()

    def wait(self, wanted: Callable[[Heard], bool], what: str) -> Heard:
        """The first message that is wanted; fails the test when none comes within ``patience_seconds``."""
        until = time.monotonic() + self.patience_seconds
        with self._changed:
            while True:
                for message in self.messages:
                    if wanted(message):
                        return message
                left = until - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"the agent never sent {what}")
                self._changed.wait(left)


class ReportEar(Ear):
    """Topic ``scheduler_report``."""

    @expose
    def report_state(self, context: Mapping[str, Any], /, **arguments: Any) -> None:
        """Heartbeat."""
        self.hear("report_state", context, arguments)

    @expose
    def update_instance(self, context: Mapping[str, Any], /, **arguments: Any) -> None:
        """What became of a build."""
        self.hear("update_instance", context, arguments)


class SchedulerEar(Ear):
    """Topic ``scheduler``."""

    @expose
    def run_instance(self, context: Mapping[str, Any], /, **arguments: Any) -> None:
        """A build that comes back."""
        self.hear("run_instance", context, arguments)


class AgentBed:
    """Bus, names and capacity for one agent; ``send_*`` are the scheduler's casts, ``updates`` and ``reports`` its ears.

    A factory reads ``transport``, ``host``, ``node``, ``vcpus``, ``memory_mb``, ``local_gb``, ``interval_seconds`` (of
    reports), ``state_path`` (a file that outlives a restart) and asks ``must_fail(uuid)`` in its builds.
    """

    host = "kit-host"
    node = "kit-node"
    vcpus = 8
    memory_mb = 8192
    local_gb = 100
    interval_seconds = 0.1

    def __init__(self, folder: Path) -> None:
        conf = cfg.ConfigOpts()
        register_options(conf)
        conf([], project="nova_sched", default_config_files=[], default_config_dirs=[])
        self.transport = get_transport(conf, "fake://")
        self.state_path = folder / "agent-state.json"
        self.settings = Settings(bus=BusSettings(host="kit-scheduler"))
        self.reports = ReportEar("1.0")
        self.scheduler = SchedulerEar("3.0")
        self._failing: set[str] = set()
        self._compute = RpcClient(self.transport, self.settings.bus.compute_topic, "3.35")
        self._servers = [
            self._server(self.settings.bus.report_topic, self.reports),
            self._server(self.settings.bus.scheduler_topic, self.scheduler),
        ]

    def _server(self, topic: str, ear: Ear) -> BusServer:
        target = Target(topic=topic, server=self.settings.bus.host)
        return BusServer(self.transport, target, [ear], on_batch_end=lambda: None)

    def start(self) -> None:
        """Listen to what the agent sends."""
        for server in self._servers:
            server.start()

    def stop(self) -> None:
        """Listen no more."""
        for server in self._servers:
            server.stop()
        self.transport.cleanup()

    def must_fail(self, uuid: str) -> bool:
        """Whether builds of this instance have to fail."""
        return uuid in self._failing

    def let_fail(self, uuid: str) -> None:
        """From now on builds of this instance fail."""
        self._failing.add(uuid)

    def send_build(
        self, uuid: str, *, memory_mb: int = 1024, limit_mb: float = 8192.0, **filter_properties: Any
    ) -> None:
        """The cast that a scheduler sends for this instance, as the real one makes it."""
        sizes = {"memory_mb": memory_mb, "vcpus": 1, "root_gb": 10, "ephemeral_gb": 0}
        arguments = {
            "request_spec": {
                "instance_uuids": [uuid],
                "num_instances": 1,
                "instance_type": {**sizes, "swap": 0, "extra_specs": {}},
                "instance_properties": {**sizes, "uuid": uuid, "project_id": "project-1", "metadata": {}},
                "image": {},
            },
            "filter_properties": filter_properties,
            "admin_password": "kit-secret",  # made up, to be recognised when it comes back
            "injected_files": [["/etc/motd", "a2l0"]],
            "requested_networks": None,
            "is_first_time": True,
            "legacy_bdm_in_spec": False,
        }
        request = inbound.run_instance(CONTEXT, arguments, self.settings)
        limits = None if request.forced else Limits(memory_mb=limit_mb)
        placement = Placement(request.instances[0], 1, self.host, self.node, 1.0, limits)
        cast = Outbound(self.settings.bus).of(request).cast(placement, datetime.now(UTC))
        self.send(cast.method, cast.version, **cast.arguments)

    def send_terminate(self, uuid: str) -> None:
        """The cast that ends a guest."""
        cast = Outbound(self.settings.bus).terminate(self.host, uuid, CONTEXT)
        self.send(cast.method, cast.version, **cast.arguments)

    def send(self, method: str, version: str, **arguments: Any) -> None:
        """Any cast to the agent."""
        self._compute.cast(CONTEXT, method, version, server=self.host, **arguments)

    def updates(self, uuid: str) -> list[tuple[str, int]]:
        """(state, attempt) of every update of this instance so far, in order."""
        heard = [m.arguments for m in self.reports.messages if m.method == "update_instance"]
        return [(update["state"], update["attempt"]) for update in heard if update["uuid"] == uuid]

    def wait_update(self, uuid: str, state: str) -> Mapping[str, Any]:
        """The update that says this instance is in that state."""
        return self.reports.wait(
            lambda m: (
                m.method == "update_instance"
                and m.arguments["uuid"] == uuid
                and m.arguments["state"] == state
            ),
            f"update_instance {state} of {uuid}",
        ).arguments

    def heartbeats(self) -> list[Mapping[str, Any]]:
        """Arguments of every report so far."""
        return [m.arguments for m in self.reports.messages if m.method == "report_state"]

    def wait_report(self, wanted: Callable[[Mapping[str, Any]], bool], what: str) -> Mapping[str, Any]:
        """The first report whose (one) node is as wanted."""
        return self.reports.wait(
            lambda m: m.method == "report_state" and wanted(m.arguments["nodes"][0]), f"a report {what}"
        ).arguments

    def wait_back(self, uuid: str) -> Heard:
        """The ``run_instance`` cast with which this instance came back."""
        return self.scheduler.wait(
            lambda m: m.arguments["request_spec"]["instance_uuids"] == [uuid], f"run_instance for {uuid}"
        )

    def settle(self) -> None:
        """Wait until everything sent before has been handled: three more reports have come."""
        count = len(self.heartbeats())
        self.reports.wait(lambda _: len(self.heartbeats()) >= count + 3, "three more reports")
