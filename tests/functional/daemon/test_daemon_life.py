"""The daemon as a process of its own: start, reload, drain, death of a worker, and starts that are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.settings import DatabaseSettings
from nova_sched.testing.servers import free_port

CODE = "import sys; from nova_sched.cmd.scheduler import main; sys.exit(main())"


class Daemon:
    """``nova-sched-scheduler`` on the in-process bus and a SQLite file."""

    def __init__(self, folder: Path, synced: bool = True) -> None:
        self.config = folder / "nova.conf"
        self.log = folder / "daemon.log"
        self.port = free_port()
        self.connection = f"sqlite:///{folder}/sched.sqlite"
        self.write()
        if synced:
            database = Database(DatabaseSettings(connection=self.connection))
            schema.sync(database)
            database.close()
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, default: str = "", connection: str | None = None, transport_url: str = "fake://") -> None:
        """Replace the configuration."""
        self.config.write_text(
            f"[DEFAULT]\ntransport_url = {transport_url}\ngraceful_shutdown_timeout = 10\n{default}\n"
            f"[database]\nconnection = {connection or self.connection}\n[health]\nport = {self.port}\n"
        )

    def start(self) -> subprocess.Popen[bytes]:
        """Start without waiting."""
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", CODE, "--config-file", str(self.config)],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._process

    def wait_for(self, text: str, times: int = 1, seconds: float = 30.0) -> None:
        """Wait until the log has a text."""
        until = time.monotonic() + seconds
        while self.said().count(text) < times:
            assert time.monotonic() < until, f"{text!r} did not come:\n{self.said()}"
            time.sleep(0.05)

    def said(self) -> str:
        """The log."""
        return self.log.read_text()

    def signal(self, number: int) -> None:
        """Send a signal to the parent."""
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, seconds: float = 20.0) -> int:
        """Exit code of the parent."""
        assert self._process is not None
        return self._process.wait(seconds)

    def get(self, path: str) -> tuple[int, str]:
        """Answer of the health port."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def workers(self) -> list[psutil.Process]:
        """Children of the parent."""
        assert self._process is not None
        return psutil.Process(self._process.pid).children()

    def close(self) -> None:
        """Leave nothing behind."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@pytest.fixture
def daemon(tmp_path):
    daemon = Daemon(tmp_path)
    yield daemon
    daemon.close()


@pytest.fixture
def unsynced(tmp_path):
    daemon = Daemon(tmp_path, synced=False)
    yield daemon
    daemon.close()


def test_daemon_serves_reloads_and_drains(daemon):
    """One life: ready to live, new ratio on SIGHUP, a wrong file changes nothing, SIGTERM twice ends with 0."""
    daemon.start()
    daemon.wait_for("scheduling with filter_scheduler")
    daemon.wait_for("metrics, probes and page on")
    assert daemon.get("/livez")[0] == 200
    status, text = daemon.get("/readyz")
    assert (status, "[+] store_up" in text, "[-] hosts_up" in text) == (503, True, True)
    assert "nova_sched_build_info" in daemon.get("/metrics")[1]

    daemon.write("ram_allocation_ratio = 1.0\nscheduler_topic = other")
    daemon.signal(signal.SIGHUP)
    daemon.wait_for("configuration: ram_allocation_ratio: 1.5 -> 1.0", times=3)
    daemon.wait_for("configuration: needs restart: scheduler_topic", times=3)
    daemon.wait_for("deciding with the new settings")

    daemon.write("scheduler_max_attempts = 0")
    daemon.signal(signal.SIGHUP)
    daemon.wait_for("stays as it is, since the file is wrong: scheduler_max_attempts = '0'", times=3)
    assert daemon.get("/livez")[0] == 200

    daemon.signal(signal.SIGTERM)
    daemon.signal(signal.SIGTERM)
    assert daemon.end() == 0
    assert "worker 0 has stopped" in daemon.said()
    assert "Traceback" not in daemon.said()


def test_dead_worker_is_restarted_by_the_parent(daemon):
    """kill -9 of a worker is followed by a fresh one."""
    daemon.start()
    daemon.wait_for("scheduling with filter_scheduler")
    daemon.wait_for("metrics, probes and page on")
    worker = next(
        child for child in daemon.workers() if f" {child.pid} " in _line(daemon.said(), "scheduling with")
    )
    worker.kill()
    daemon.wait_for("scheduling with filter_scheduler", times=2)
    daemon.signal(signal.SIGTERM)
    assert daemon.end() == 0


def test_report_on_sigusr2_masks_secrets(daemon):
    """A Guru Meditation Report of a worker shows its threads and no password."""
    daemon.write(connection=daemon.connection, default="rabbit_password = s3cret\nrabbit_host = 127.0.0.1")
    daemon.start()
    daemon.wait_for("scheduling with filter_scheduler")
    pid = int(_line(daemon.said(), "scheduling with").split()[2])
    os.kill(pid, signal.SIGUSR2)
    daemon.wait_for("Guru Meditation", seconds=20)
    daemon.wait_for("Threads")
    daemon.signal(signal.SIGTERM)
    assert daemon.end() == 0
    assert "s3cret" not in daemon.said()


def test_empty_database_is_refused_with_the_remedy(unsynced):
    """The start says what to run, in one line whatever the number of workers, and exits 2."""
    Path(unsynced.connection.removeprefix("sqlite:///")).touch()
    unsynced.write("workers = 2")
    unsynced.start()
    assert unsynced.end() == 2
    (line,) = unsynced.said().splitlines()
    assert line.startswith("nova-sched-scheduler: version of the tables = 'none'")
    assert "run: nova-sched-manage db sync" in line


def test_missing_database_file_is_refused_and_not_made(unsynced):
    """Its name may be misspelt: one line, exit 2, and no empty file."""
    unsynced.start()
    assert unsynced.end() == 2
    (line,) = unsynced.said().splitlines()
    assert "a file that exists; to make it run: nova-sched-manage db sync" in line
    assert not Path(unsynced.connection.removeprefix("sqlite:///")).exists()


def test_lp2147554_sigterm_while_waiting_for_the_database_exits_0(unsynced):
    """Stop during start-up is no error; the wait was announced in one line."""
    unsynced.write(connection="mysql://u:s3cret@127.0.0.1:1/d")
    unsynced.start()
    unsynced.wait_for("waiting for the database")
    unsynced.signal(signal.SIGTERM)
    assert unsynced.end() == 0
    assert unsynced.said().count("waiting for the database") == 1
    assert "s3cret" not in unsynced.said()


def test_missing_broker_is_waited_for(daemon):
    """Nothing crashes, and SIGTERM ends the wait."""
    daemon.write(transport_url="rabbit://u:s3cret@127.0.0.1:1/")
    daemon.start()
    daemon.wait_for("127.0.0.1:1")
    time.sleep(1.0)
    daemon.signal(signal.SIGTERM)
    assert daemon.end() == 0
    assert "Traceback" not in daemon.said()
    assert "s3cret" not in daemon.said()


def test_wrong_configuration_exits_2_before_anything_starts(daemon):
    """Option, value and expectation, in one line."""
    daemon.write("scheduler_driver = fliter_scheduler")
    daemon.start()
    assert daemon.end() == 2
    (line,) = daemon.said().splitlines()
    assert line.startswith(
        "nova-sched-scheduler: scheduler_driver = 'fliter_scheduler': did you mean filter_scheduler?"
    )


def _line(text: str, part: str) -> str:
    return next(line for line in text.splitlines() if part in line)
