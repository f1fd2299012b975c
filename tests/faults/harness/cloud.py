"""A private cloud of real processes: workers of the daemon, agents, broker and database, with everything recorded."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.reports.apply import ReportSink
from nova_sched.rpc import transport as transports
from nova_sched.rpc.bus.driver import rabbit_driver
from nova_sched.settings import DatabaseSettings
from nova_sched.testing.servers import RabbitServer
from nova_sched.testing.servers.process import ServerFailed
from tests.faults.harness import audit
from tests.faults.harness.audit import Books
from tests.faults.harness.checker import Checker, Verdict
from tests.faults.harness.client import Client
from tests.faults.harness.fleet import name_of
from tests.faults.harness.history import History
from tests.faults.harness.orders import Body
from tests.faults.harness.recorder import Recorder
from tests.faults.harness.sizes import PATIENCE, SEED

ROOT = Path(__file__).parents[3]
STARTED = "worker [-] scheduling with "
"""What a worker says once it consumes."""


def until(condition: Callable[[], Any], seconds: float, what: str, look_seconds: float = 0.05) -> Any:
    """Wait for a condition and return its value, or fail with the seed."""
    deadline = time.monotonic() + seconds * PATIENCE
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, (
            f"seed {SEED}: in {seconds * PATIENCE:.0f} s it did not happen: {what}"
        )
        time.sleep(look_seconds)


class Cloud:
    """See the module. Close it; what it started is gone then.

    :param url: of an empty database. :param hosts: compute hosts ``h1`` … ``hN``.
    :param agents: run the agent library for them; otherwise they were reported once and only the recorder listens.
    :param ports: of the broker's nodes as the workers see them (a proxy's, for instance); default: the real ones.
    :param options: ``group.name`` → value of the workers' configuration.
    :param unheard: hosts whose compute queue is left to the agents alone: without them, there is none.
    :param daemon: run ``nova-sched-scheduler`` itself; otherwise its workers under a parent that forks them again without
        the pause that the daemon's makes after several deaths in a row.
    """

    def __init__(
        self,
        folder: Path,
        rabbit: RabbitServer,
        url: str,
        *,
        workers: int = 3,
        hosts: int = 10,
        agents: bool = True,
        ports: Sequence[int] | None = None,
        host_options: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        quorum: bool = False,
        unheard: Sequence[str] = (),
        daemon: bool = False,
    ) -> None:
        self.folder, self.rabbit, self.url = folder, rabbit, url
        self.folder.mkdir(parents=True, exist_ok=True)
        self._workers, self._hosts, self._with_agents, self._daemon = workers, hosts, agents, daemon
        self._host_options = {"build_seconds": 0.0, "memory_mb": 65536, "vcpus": 4096, **(host_options or {})}
        self.vhost = rabbit.create_vhost()
        self.unread: tuple[str, ...] = ()
        """Beginnings of the names of queues that nobody reads any more."""
        self.history = History()
        self._processes: list[subprocess.Popen[str]] = []
        self.parent: subprocess.Popen[str] | None = None
        self.fleet: subprocess.Popen[str] | None = None
        self.plan = folder / "crash.plan"
        self.plan.write_text("")
        real = [node.port for node in rabbit.nodes]
        self._config = self._write_config("workers", list(ports or real), dict(options or {}), quorum)
        self._agents_config = self._write_config("agents", real, {}, quorum)
        self._tables()
        self.books = Books(url)
        recorded = [name_of(n) for n in range(1, hosts + 1) if name_of(n) not in unheard]
        self.recorder = Recorder(
            [("127.0.0.1", port) for port in real], self.vhost, self.history, recorded, quorum
        )
        self.recorder.start()
        conf = cfg.ConfigOpts()
        transports.register_options(conf, quorum=quorum)
        conf([], project="faults")
        conf.set_override("kombu_reconnect_delay", 0.1, group="oslo_messaging_rabbit")
        conf.set_override("kombu_reconnect_splay", 0.1, group="oslo_messaging_rabbit")
        self.transport = transports.get_transport(conf, rabbit.transport_url(self.vhost))
        driver = rabbit_driver(self.transport)
        assert driver is not None
        self.link_settings = driver.link_settings
        self.client = Client(self.link_settings, self.history)

    def configure(self, options: Mapping[str, Any]) -> None:
        """Other options for workers that are started from now on."""
        self._config = self._write_config(
            "workers", [n.port for n in self.rabbit.nodes], dict(options), False
        )

    def start(self) -> Cloud:
        """Start the workers, then the agents; returns when all listen and every host is known."""
        self.start_workers()
        if self._with_agents:
            self.start_agents()
            until(
                lambda: self.books.scalar("SELECT count(*) FROM sched_hosts") >= self._hosts,
                60,
                "every host is reported",
            )
        return self

    def start_workers(self, workers: int | None = None) -> None:
        """Start the parent of the workers, and wait until they consume."""
        workers = workers or self._workers
        environment = {**os.environ, "NOVA_SCHED_CRASH_PLAN": str(self.plan)}
        command = [sys.executable, "-m", "tests.faults.harness.zygote", str(self._config), str(workers)]
        if self._daemon:
            program = "import sys; from nova_sched.cmd.scheduler import main; sys.exit(main())"
            command = [sys.executable, "-c", program, "--config-file", str(self._config)]
        before = self.log().count(STARTED)
        parent = self.parent = self._run("workers", command, environment)

        def consuming() -> bool:
            return self.log().count(STARTED) >= before + workers or parent.poll() is not None

        try:
            until(consuming, 60, "the workers consume")
            assert parent.poll() is None, "the parent of the workers has ended"
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.log_tail()}") from None

    def start_agents(self, first: int = 1, count: int | None = None) -> subprocess.Popen[str]:
        """Start a process of agents, and wait until they listen."""
        command = [
            sys.executable, "-m", "tests.faults.harness.fleet", str(self._agents_config), str(first),
            str(count or self._hosts), json.dumps(self._host_options),
        ]  # fmt: skip
        fleet = self.fleet = self._run(f"agents-{first}", command, os.environ)
        said = self.folder / f"agents-{first}.out"
        until(lambda: "ready" in said.read_text() or fleet.poll() is not None, 60, "the agents listen")
        assert fleet.poll() is None, said.read_text()
        return fleet

    def stop_workers(self, hard: bool = False) -> None:
        """SIGTERM to the parent, as an operator would; ``hard``: SIGKILL for all of them."""
        parent = self.parent
        if parent is None:
            return
        children = self.worker_pids()
        if hard:
            parent.kill()
            for pid in children:
                kill(pid)
        else:
            parent.terminate()
        parent.wait(90)
        self.parent = None

    def worker_pids(self) -> list[int]:
        """Process ids of the workers that live."""
        if self.parent is None:
            return []
        found: list[int] = []
        for path in Path(f"/proc/{self.parent.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, path.read_text().split())
        return found

    def consumers(self) -> int:
        """Workers that consume the scheduler topic."""
        queue = self.rabbit.queues(self.vhost).get("scheduler")
        return int(queue["consumers"]) if queue else 0

    def consumers_or_none(self) -> int | None:
        """The same, or None while the broker does not answer."""
        try:
            return self.consumers()
        except ServerFailed:
            return None

    def depth(self, queue: str) -> int:
        """Messages in a queue, unacknowledged ones included; 0 where there is none."""
        found = self.rabbit.queues(self.vhost).get(queue)
        return int(found["messages"] or 0) if found else 0

    def waiting(self) -> dict[str, int]:
        """What is not done yet: queues with messages, rows of the outbox, instances without an outcome."""
        left = {
            name: queue["messages"] if queue["messages"] is not None else -1
            for name, queue in self.rabbit.queues(self.vhost).items()
            if queue["messages"] != 0 and name != "scheduler.dead_letter" and not name.startswith(self.unread)
        }
        if rows := self.books.scalar("SELECT count(*) FROM sched_outbox"):
            left["outbox"] = rows
        known = {row[0] for row in self.books.rows("SELECT uuid FROM sched_instances")}
        if lost := sum(uuid not in known for uuid in list(self.history.accepted)):
            left["unknown instances"] = lost
        return left

    def settle(self, seconds: float = 60.0) -> None:
        """Wait until nothing is left to do."""
        deadline = time.monotonic() + seconds * PATIENCE
        while left := self.waiting():
            assert time.monotonic() < deadline, (
                f"seed {SEED}: not done in {seconds * PATIENCE:.0f} s: {left}\n{self.log_tail()}"
            )
            time.sleep(0.1)

    def check(self, **options: Any) -> Verdict:
        """The checker's verdict on all that happened; raises AssertionError."""
        verdict = Checker(self.history, self.books, **options).run().check()
        print(f"seed {SEED}: {dict(verdict.counts)}")
        return verdict

    def dead_letters(self) -> int:
        """Messages in the dead-letter queue."""
        return self.depth("scheduler.dead_letter")

    def log_tail(self, lines: int = 30) -> str:
        """The end of what the workers said."""
        return "\n".join(self.log().splitlines()[-lines:])

    def log(self) -> str:
        """All that the workers said."""
        path = self.folder / "workers.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        """End everything."""
        self.client.close()
        children = self.worker_pids()
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait(10)
        for pid in children:
            kill(pid)
        self.recorder.stop()
        self.transport.cleanup()
        self.books.close()
        self.rabbit.delete_vhost(self.vhost)

    def _run(self, name: str, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        with open(self.folder / f"{name}.out", "a", encoding="utf-8") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env=dict(environment), stdout=log, stderr=log, text=True
            )
        self._processes.append(process)
        return process

    def _tables(self) -> None:
        database = Database(DatabaseSettings(connection=self.url))
        schema.sync(database)
        if not self._with_agents:
            report_hosts(database, self._hosts, int(self._host_options["memory_mb"]))
        database.close()
        audit.install(self.url)

    def _write_config(self, name: str, ports: list[int], options: dict[str, Any], quorum: bool) -> Path:
        hosts = ",".join(f"guest:guest@127.0.0.1:{port}" for port in ports)
        values: dict[str, Any] = {
            "DEFAULT.transport_url": f"rabbit://{hosts}/{self.vhost}",
            "DEFAULT.host": "sched-1",
            "DEFAULT.workers": self._workers,
            "DEFAULT.report_interval": 3,
            "DEFAULT.service_down_time": 60 if self._with_agents else 86_400,
            "DEFAULT.graceful_shutdown_timeout": 20,
            "database.connection": self.url.replace("%", "%%"),
            "delivery.prefetch": 20,
            "delivery.batch_max": 20,
            "delivery.upkeep_interval_seconds": 1,
            "delivery.watchdog_interval_seconds": 1,
            "delivery.quorum_queues": quorum,
            "health.enabled": False,
            "oslo_messaging_rabbit.kombu_reconnect_delay": 0.1,
            "oslo_messaging_rabbit.kombu_reconnect_splay": 0.1,
            "oslo_messaging_rabbit.heartbeat_timeout_threshold": 3,
            **options,
        }
        groups: dict[str, list[str]] = {}
        for full_name, value in values.items():
            group, _, option = full_name.partition(".")
            groups.setdefault(group, []).append(f"{option} = {value}")
        path = self.folder / f"{name}.conf"
        path.write_text(
            "\n".join(f"[{group}]\n" + "\n".join(lines) for group, lines in groups.items()) + "\n"
        )
        return path


class Load:
    """Requests from a thread of their own for the length of a ``with``, at a steady pace.

    :param make: the next few requests.
    """

    def __init__(self, cloud: Cloud, make: Callable[[], list[Body]], pause_seconds: float = 0.05) -> None:
        self._cloud, self._make, self._pause_seconds = cloud, make, pause_seconds
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.sent = 0

    def __enter__(self) -> Load:
        self._thread.start()
        self.more(20)
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join(150 * PATIENCE)
        if self._failure is not None:
            raise self._failure

    def more(self, amount: int) -> None:
        """Wait until so many more requests were accepted."""
        goal = self.sent + amount
        until(
            lambda: self.sent >= goal or self._failure is not None, 90, f"{amount} more requests are accepted"
        )

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._pause_seconds):
                orders = self._make()
                self._cloud.client.send(orders)
                self.sent += len(orders)
        except BaseException as failure:
            self._failure = failure


def report_hosts(database: Database, amount: int, memory_mb: int, first: int = 1, **columns: Any) -> None:
    """Report so many hosts once, h<first> and on, for clouds without agents."""
    sink = ReportSink(database, lambda request, reason: None, lambda host, uuid: None)  # type: ignore[arg-type,return-value]
    for number in range(first, first + amount):
        values = {
            "vcpus": 4096, "memory_mb": memory_mb, "local_gb": 100_000, "vcpus_used": 0, "memory_mb_used": 0,
            "local_gb_used": 0, "free_ram_mb": memory_mb, "free_disk_gb": 100_000, "running_vms": 0, **columns,
        }  # fmt: skip
        name = name_of(number)
        node = {"hypervisor_hostname": name, "values": values, "instances": [], "full": True}
        sink.report_state({"host": name, "epoch": 1, "seq": 1, "interval_seconds": 10}, [node])
    sink.apply()


def kill(pid: int) -> None:
    """SIGKILL; one that is gone already is fine."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def descriptors(pid: int) -> int:
    """Open descriptors of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def threads(pid: int) -> int:
    """Threads of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def fresh_database(server: Any) -> str:
    """URL of a new database on a private server."""
    name = server.create_database()
    url: str = server.url(name)
    assert sa.engine.make_url(url).database == name
    return url
