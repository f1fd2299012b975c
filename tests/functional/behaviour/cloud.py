"""A whole service in this process: one worker, three compute hosts, an API client; on any bus and any database."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from oslo_config import cfg

from nova_sched.agent import Agent, SimulatedHypervisor
from nova_sched.bootstrap import transports
from nova_sched.bootstrap.worker import Worker
from nova_sched.conf import build
from nova_sched.db import schema
from nova_sched.db.admin import GroupAdmin
from nova_sched.db.engine import Database
from nova_sched.db.instances import InstanceDirectory
from nova_sched.errors import InstanceNotFound
from nova_sched.rpc.client import RpcClient
from nova_sched.rpc.tap import open_tap
from nova_sched.rpcapi import ReportAPI, SchedulerAPI
from nova_sched.settings import DatabaseSettings

T = TypeVar("T")
MEMORY_MB = 65536
HOSTS = ("node-1", "node-2", "node-3")
FINAL = ("active", "error", "deleted")


def until(what: Callable[[], T], why: str, seconds: float = 10.0) -> T:
    """The first true value of ``what``, or a failure that says what never came."""
    deadline = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < deadline, f"never happened: {why}"
        time.sleep(0.01)


class Request:
    """One request in Juno's form; ``fields`` change single places of it."""

    def __init__(
        self,
        count: int = 1,
        memory_mb: int = 512,
        metadata: dict[str, str] | None = None,
        uuids: list[str] | None = None,
        **filter_properties: Any,
    ) -> None:
        sizes = {"vcpus": 1, "memory_mb": memory_mb, "root_gb": 1, "ephemeral_gb": 0}
        flavor = {"id": 7, "flavorid": "42", "name": "lab", "swap": 0, "extra_specs": {}, **sizes}
        self.uuids = uuids or [str(uuid.uuid4()) for _ in range(count)]
        self.context = {
            "request_id": f"req-{uuid.uuid4()}",
            "user_id": "user-1",
            "project_id": "project-1",
            "auth_token": "token-of-the-user",
            "roles": ["member"],
            "is_admin": False,
        }
        self.spec: dict[str, Any] = {
            "instance_uuids": list(self.uuids),
            "num_instances": count,
            "instance_type": flavor,
            "instance_properties": {
                **sizes,
                "uuid": self.uuids[0],
                "project_id": "project-1",
                "user_id": "user-1",
                "display_name": "vm",
                "vm_state": "building",
                "task_state": "scheduling",
                "metadata": metadata or {},
                "system_metadata": {},
                "launch_index": 0,
            },
            "image": {"id": "image-1", "properties": {}},
            "block_device_mapping": [],
            "security_group": ["default"],
        }
        self.filter_properties: dict[str, Any] = {
            "instance_type": flavor,
            "scheduler_hints": {},
            **filter_properties,
        }


class Cloud:
    """One worker with the service's database and bus, agents ``node-1`` to ``node-3``, a client and a tap."""

    def __init__(self, folder: Path, bus_url: str, sql_url: str, exchange: str) -> None:
        self._stack = ExitStack()
        self.conf = cfg.ConfigOpts()
        file = folder / "nova.conf"
        file.write_text(
            f"""
[DEFAULT]
transport_url = {bus_url}
control_exchange = {exchange}
host = sched-1
report_interval = 1
rpc_response_timeout = 10
[database]
connection = {sql_url}
[delivery]
upkeep_interval_seconds = 0.5
[oslo_messaging_rabbit]
kombu_reconnect_delay = 0.1
""",
            encoding="utf-8",
        )
        build.parse(self.conf, ["--config-file", str(file)])
        self.settings = build.settings_from(self.conf)
        self.database = Database(DatabaseSettings(connection=sql_url))
        self._stack.callback(self.database.close)
        schema.sync(self.database)
        self.directory = InstanceDirectory(self.database)
        self.groups = GroupAdmin(self.database)

    def __enter__(self) -> Cloud:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        self.worker = Worker(self.conf, self.settings)
        self._stack.callback(self.worker.stop, 10.0)
        self.worker.start()
        transport = self._own(transports.rpc_transport(self.conf, self.settings), "cleanup")
        self.api = SchedulerAPI(transport, self.settings.bus, timeout_seconds=10.0)
        self.raw = RpcClient(transport, self.settings.bus.scheduler_topic, "3.0", timeout_seconds=10.0)
        notifications = self._own(transports.notification_transport(self.conf, self.settings), "cleanup")
        self._tap = self._own(open_tap(notifications, self.settings.bus.notification_topics), "close")
        self.events: list[dict[str, Any]] = []
        self.agents: dict[str, Agent] = {}
        for name in HOSTS:
            self._agent(name, transport)
        until(lambda: len(self.hosts()) == len(HOSTS), "all hosts have reported")

    def _agent(self, name: str, transport: Any) -> None:
        hypervisor = SimulatedHypervisor(
            name, vcpus=64, memory_mb=MEMORY_MB, local_gb=1000, build_seconds=0.0
        )
        bus = replace(self.settings.bus, host=name)
        agent = Agent(
            transport,
            name,
            hypervisor,
            SchedulerAPI(transport, bus),
            ReportAPI(transport, bus),
            node=f"{name}.lab",
            settings=self.settings.agent,
            bus=bus,
        )
        agent.start()
        self.agents[name] = agent
        self._stack.callback(agent.stop, 5.0)

    def _own(self, thing: Any, closing: str) -> Any:
        self._stack.callback(getattr(thing, closing))
        return thing

    # What a caller does

    def boot(self, request: Request) -> None:
        """Cast ``run_instance``."""
        self.api.run_instance(
            request.context, request.spec, "pass", [], None, True, request.filter_properties, False
        )

    def booted(self, request: Request) -> list[dict[str, Any]]:
        """Cast ``run_instance``; every instance's state once it is final."""
        self.boot(request)
        return self.ended(request.uuids)

    def instance(self, uuid_: str) -> dict[str, Any] | None:
        """What the database says; None: nothing yet."""
        try:
            return dict(self.directory.get_instance(uuid_))
        except InstanceNotFound:
            return None

    def ended(self, uuids: list[str]) -> list[dict[str, Any]]:
        """Every instance once its state is final."""

        def is_over() -> bool:
            rows = self.directory.list_instances(limit=100_000, deleted=True)
            states = {row["uuid"]: row["vm_state"] for row in rows}
            return all(states.get(uuid_) in FINAL for uuid_ in uuids)

        until(is_over, f"{len(uuids)} instances are {' or '.join(FINAL)}")
        return [dict(self.directory.get_instance(uuid_)) for uuid_ in uuids]

    # What an operator sees

    def hosts(self) -> dict[str, dict[str, Any]]:
        """Host rows by name."""
        return {row["host"]: dict(row) for row in self.directory.get_hosts(None, 100)}

    def taken_mb(self) -> dict[str, int]:
        """RAM in use by host, reported or claimed."""
        return {name: row["used_memory_mb"] + row["claimed_memory_mb"] for name, row in self.hosts().items()}

    def told(self, instance: str, event_type: str) -> dict[str, Any]:
        """The first notification of that type that names the instance, in its payload or among the request's."""

        def look() -> dict[str, Any] | None:
            self.events += self._tap.events(0.02)
            return next(
                (e for e in self.events if e["event_type"] == event_type and _names(e, instance)), None
            )

        return until(look, f"{event_type} of {instance}")

    @contextmanager
    def configured(self, **scheduler: Any) -> Iterator[None]:
        """Other settings of the scheduler for the length of a ``with``, taken over as by SIGHUP."""
        changed = replace(self.settings, scheduler=replace(self.settings.scheduler, **scheduler))
        self.worker.reload(changed)
        try:
            yield
        finally:
            self.worker.reload(self.settings)

    def empty(self) -> None:
        """Delete every instance and wait until all room is free again."""
        for row in self.directory.list_instances(limit=10_000):
            self.api.delete_instance({}, row["uuid"])

        until(lambda: not any(self.taken_mb().values()), "all hosts are empty")


def _names(event: dict[str, Any], instance: str) -> bool:
    payload = event["payload"]
    named = payload.get("request_spec", {}).get("instance_uuids", [])
    return payload.get("instance_id") == instance or ("instance_id" not in payload and instance in named)
