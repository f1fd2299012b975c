"""Processes and folders of a private server, and the promise that none outlives the test run.

A server started for a test lives in one temporary folder (its `Home`) and in process groups of its own. Three nets catch it:
leaving the context manager, `atexit` when a test run ends without that, and a small shell that waits on a pipe for
the death of the run itself (`kill -9` of pytest included) and then kills the groups and removes the folder.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

# Below the kernel's range for outgoing connections, so that no client of a neighbour takes the port between our look and the server's bind.
_PORTS = range(15000, 32000)
_taken_ports: set[int] = set()

_REAPER = """
cat >/dev/null
for sign in QUIT KILL; do
    for file in "$1"/*.pgid; do
        [ -e "$file" ] && kill -s "$sign" -- "-$(cat "$file")" 2>/dev/null && sleep 0.5
    done
done
rm -rf -- "$1"
"""


class MissingServer(RuntimeError):
    """A server program is not installed. The text names the package to install."""


class ServerFailed(RuntimeError):
    """A server did not start, stop or answer in time. The text ends with the last lines of its log."""


def find_program(name: str, package: str, *folders: str) -> str:
    """Return the path of a server's program, looking into `folders` (the newest last) before PATH.

    :raises MissingServer: when it is nowhere; tests fail with that text instead of being skipped.
    """
    found = shutil.which(
        name, path=os.pathsep.join([*reversed(folders), os.environ.get("PATH", os.defpath), "/usr/sbin"])
    )
    if found is None:
        raise MissingServer(
            f"{name} is not installed; install the package {package} "
            f"(as root: tools/install-servers.sh, or: apt-get install --no-install-recommends {package})"
        )
    return found


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on and that this process has not handed out yet."""
    chooser = random.SystemRandom()
    while True:
        port = chooser.choice(_PORTS)
        if port in _taken_ports:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _taken_ports.add(port)
            return port


def wait_until(answer: Callable[[], bool], timeout_seconds: float, what: Callable[[], str]) -> None:
    """Ask `answer` every 50 ms until it says yes.

    :raises ServerFailed: after `timeout_seconds`, with the text of `what`.
    """
    deadline = time.monotonic() + timeout_seconds
    while not answer():
        if time.monotonic() > deadline:
            raise ServerFailed(what())
        time.sleep(0.05)


def _close_if_owner(home: Home) -> None:
    if home.owner_pid == os.getpid():
        home.close()


def _lives(process: psutil.Process) -> bool:
    # An orphan may stay a zombie until init gets around to it; it holds no port and no file any more.
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class Home:
    """The temporary folder of one server, owned by the account it runs as.

    :param name: goes into the folder's name, so that a leftover could be told.
    :param account: system user to run as when this process is root; anybody else runs servers under its own name.
    """

    def __init__(self, name: str, account: str) -> None:
        self.owner_pid = os.getpid()
        self.path = Path(tempfile.mkdtemp(prefix=f"nova-sched-{name}-"))
        self._account: pwd.struct_passwd | None = None
        if os.geteuid() == 0:
            try:
                self._account = pwd.getpwnam(account)
            except KeyError:
                shutil.rmtree(self.path)
                raise MissingServer(
                    f"there is no system user {account}; its server's package creates it"
                ) from None
            self.give(self.path)
        self._processes: list[ServerProcess] = []
        self._reaper = subprocess.Popen(
            ["sh", "-c", _REAPER, "reaper", str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _homes.add(self)

    def give(self, path: Path) -> None:
        """Hand a file or folder to the server's account."""
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)

    def folder(self, name: str) -> Path:
        """Make (once) a sub-folder that belongs to the server's account."""
        path = self.path / name
        if not path.exists():
            path.mkdir(mode=0o700)
            self.give(path)
        return path

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        """Write a small file that belongs to the server's account."""
        path = self.path / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        self.give(path)
        return path

    def identity(self) -> dict[str, Any]:
        """Return the keyword arguments that make `subprocess` run a program as the server's account."""
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def run(
        self, command: Sequence[str], env: Mapping[str, str] | None = None, timeout_seconds: float = 60
    ) -> str:
        """Run a command as the server's account and return what it printed.

        :raises ServerFailed: when it fails or takes longer than `timeout_seconds`.
        """
        try:
            done: subprocess.CompletedProcess[str] = subprocess.run(
                command,
                env=dict(env or self.environment()),
                cwd=self.path,
                text=True,
                timeout=timeout_seconds,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                **self.identity(),
            )
        except subprocess.TimeoutExpired as error:
            raise ServerFailed(f"{command[0]} did not end in {timeout_seconds} s") from error
        if done.returncode:
            raise ServerFailed(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout

    def environment(self, **values: str) -> dict[str, str]:
        """Return an environment for the server's programs: nothing of ours leaks into it but PATH."""
        path = os.environ.get("PATH", os.defpath)
        return {
            "PATH": f"{path}:/usr/sbin:/sbin",
            "HOME": str(self.path),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.path),
            **values,
        }

    def process(
        self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None
    ) -> ServerProcess:
        """Describe a long-running program of this home; it is started by its `start`."""
        process = ServerProcess(self, name, command, env or self.environment())
        self._processes.append(process)
        return process

    def close(self) -> None:
        """Kill what still runs and remove the folder. A second call does nothing."""
        for process in reversed(self._processes):
            process.kill()
        shutil.rmtree(self.path, ignore_errors=True)
        # Killed, not only let go: a forked child of ours may hold the other end of its pipe.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._reaper.pid, signal.SIGKILL)
        self._reaper.communicate()
        _homes.discard(self)


_homes: set[Home] = set()


@atexit.register
def _close_all() -> None:
    for home in list(_homes):
        _close_if_owner(home)


class ServerProcess:
    """One long-running program in a process group of its own, its output in `<home>/<name>.log`."""

    def __init__(self, home: Home, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._home = home
        self._name = name
        self._command = list(command)
        self._env = dict(env)
        self._popen: subprocess.Popen[bytes] | None = None
        self.log_path = home.path / f"{name}.log"

    @property
    def pid(self) -> int | None:
        """Process id of the program, None while it does not run."""
        return self._popen.pid if self._popen is not None and self._popen.poll() is None else None

    @property
    def running(self) -> bool:
        return self.pid is not None

    def start(self) -> None:
        """Start the program; nothing happens when it runs already."""
        if self.running:
            return
        with self.log_path.open("ab") as log:
            self._popen = subprocess.Popen(
                self._command,
                env=self._env,
                cwd=self._home.path,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                **self._home.identity(),
            )
        self._pgid_file.write_text(str(self._popen.pid), encoding="ascii")

    def stop(self, sign: signal.Signals, timeout_seconds: float) -> None:
        """Ask the program to end by a signal to its leading process, kill it when it has not after `timeout_seconds`."""
        if self._popen is None:
            return
        if self._popen.poll() is None:
            self._popen.send_signal(sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(timeout_seconds)
        self.kill()

    def kill(self) -> None:
        """SIGKILL for the program, its process group and every descendant (some leave the group)."""
        if self._popen is None:
            return
        descendants: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            descendants = psutil.Process(self._popen.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        for process in descendants:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._popen.wait()
        wait_until(
            lambda: not any(map(_lives, descendants)), 10, lambda: f"{self._name}: processes survive SIGKILL"
        )
        self._popen = None
        self._pgid_file.unlink(missing_ok=True)

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines the program printed."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    @property
    def _pgid_file(self) -> Path:
        return self._home.path / f"{self._name}.pgid"
