"""Private PostgreSQL and MariaDB: own data folder, free port of 127.0.0.1, full durability, gone afterwards."""

from __future__ import annotations

import glob
import itertools
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from nova_sched.testing.servers.process import (
    Home,
    ServerFailed,
    ServerProcess,
    find_program,
    free_port,
    wait_until,
)

_START_TIMEOUT_SECONDS = 60.0
_STOP_TIMEOUT_SECONDS = 30.0


class SqlServer(ABC):
    """A private SQL server; `with PostgresServer() as server:` starts it and leaves nothing behind.

    :raises MissingServer: when its programs are not installed.
    """

    #: First word of an SQLAlchemy URL, for error texts and test names.
    kind: str

    def __init__(self, name: str, account: str) -> None:
        self._home = Home(name, account)
        self.port = free_port()
        self._process: ServerProcess | None = None
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the server (the first time: on a new, empty data folder) and wait until it answers."""
        if self._process is None:
            self._process = self._prepare()
        self._process.start()
        wait_until(
            self._answers, _START_TIMEOUT_SECONDS, lambda: f"{self.kind} did not start:\n{self._log_tail()}"
        )

    @abstractmethod
    def stop(self) -> None:
        """Shut down in good order; open connections are closed."""

    def restart(self) -> None:
        """Stop in good order, then start."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """`kill -9` for every process of the server, as in a power cut."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Kill what runs and remove the folder."""
        self._home.close()

    @property
    def folder(self) -> Path:
        """The temporary folder with all the server keeps; gone after `close`."""
        return self._home.path

    @property
    def running(self) -> bool:
        """True while the server's process lives."""
        return self._process is not None and self._process.running

    @abstractmethod
    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database."""

    @abstractmethod
    def execute(self, statement: str) -> str:
        """Run a statement as administrator through the server's own client; what it printed, one row a line, tabs between."""

    def create_database(self, name: str | None = None) -> str:
        """Make an empty database and return its name."""
        name = name or f"t{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    @abstractmethod
    def drop_database(self, name: str) -> None:
        """Remove a database, whoever is still connected. Unknown names are fine."""

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a fresh database for the length of a `with`."""
        name = self.create_database()
        try:
            yield self.url(name)
        finally:
            if self.running:
                self.drop_database(name)

    @abstractmethod
    def _prepare(self) -> ServerProcess:
        """Make the data folder and describe the server's process."""

    @abstractmethod
    def _ping(self) -> None:
        """Ask the server for a sign of life.

        :raises ServerFailed: when it gives none.
        """

    def _answers(self) -> bool:
        if not self.running:
            raise ServerFailed(f"{self.kind} ended while starting:\n{self._log_tail()}")
        try:
            self._ping()
        except ServerFailed:
            return False
        return True

    def _log_tail(self) -> str:
        return "" if self._process is None else self._process.log_tail()


class PostgresServer(SqlServer):
    """A private PostgreSQL with `fsync` on; its administrator is `postgres`, trusted on 127.0.0.1."""

    kind = "postgresql"

    def __init__(self) -> None:
        self._programs = sorted(
            glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[-2])
        )
        for program in ("initdb", "postgres", "psql"):
            find_program(program, "postgresql", *self._programs)
        super().__init__("postgres", "postgres")

    def _program(self, name: str) -> str:
        return find_program(name, "postgresql", *self._programs)

    def _prepare(self) -> ServerProcess:
        data = self._home.folder("data")
        self._home.run(
            [
                self._program("initdb"),
                "-D",
                str(data),
                "-U",
                "postgres",
                "--auth=trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            ]
        )
        settings = {
            "port": str(self.port), "listen_addresses": "127.0.0.1", "unix_socket_directories": str(self._home.path),
            "fsync": "on", "synchronous_commit": "on", "max_connections": "200", "dynamic_shared_memory_type": "mmap",
        }  # fmt: skip
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return self._home.process("postgres", [self._program("postgres"), "-D", str(data), *options])

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(signal.SIGINT, _STOP_TIMEOUT_SECONDS)

    def close(self) -> None:
        if self.running:
            # SIGQUIT ends the children and frees the shared memory that SIGKILL would leave.
            assert self._process is not None
            self._process.stop(signal.SIGQUIT, _STOP_TIMEOUT_SECONDS)
        self._free_shared_memory()
        super().close()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str) -> str:
        return self._home.run(
            [self._program("psql"), "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(self.port),
             "-U", "postgres", "-d", "postgres", "-c", statement]
        )  # fmt: skip

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _ping(self) -> None:
        self.execute("SELECT 1")

    def _free_shared_memory(self) -> None:
        # A killed server leaves a tiny System V segment, named in its pid file, which only the next start would remove.
        pid_file = self._home.path / "data" / "postmaster.pid"
        if not pid_file.exists():
            return
        for line in pid_file.read_text(encoding="ascii").splitlines():
            words = line.split()
            if len(words) == 2 and all(word.isdigit() for word in words):
                with suppress(ServerFailed):
                    self._home.run(["ipcrm", "-m", words[1]])


class MariaDbServer(SqlServer):
    """A private MariaDB that flushes at every commit; its administrator is `nova_sched`, without a password, on 127.0.0.1."""

    kind = "mysql"

    def __init__(self) -> None:
        for program in ("mariadbd", "mariadb-install-db", "mariadb"):
            find_program(program, "mariadb-server")
        super().__init__("mariadb", "mysql")

    def _prepare(self) -> ServerProcess:
        data = self._home.folder("data")
        self._home.run(
            [find_program("mariadb-install-db", "mariadb-server"), "--no-defaults", f"--datadir={data}", "--skip-test-db",
             "--auth-root-authentication-method=normal"]
        )  # fmt: skip
        first_words = self._home.write(
            "init.sql",
            "CREATE USER IF NOT EXISTS nova_sched@'127.0.0.1';\nGRANT ALL ON *.* TO nova_sched@'127.0.0.1' WITH GRANT OPTION;\n",
        )
        command = [
            find_program("mariadbd", "mariadb-server"), "--no-defaults", f"--datadir={data}", f"--socket={self._home.path}/sql.sock",
            f"--port={self.port}", "--bind-address=127.0.0.1", f"--pid-file={self._home.path}/sql.pid", "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=1", "--max-connections=300", f"--init-file={first_words}",
        ]  # fmt: skip
        return self._home.process("mariadbd", command)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(signal.SIGTERM, _STOP_TIMEOUT_SECONDS)

    def url(self, database: str = "mysql") -> str:
        return f"mysql+pymysql://nova_sched@127.0.0.1:{self.port}/{database}?charset=utf8mb4"

    def execute(self, statement: str) -> str:
        return self._home.run(
            [find_program("mariadb", "mariadb-server"), "--no-defaults", "-h", "127.0.0.1", "-P", str(self.port), "-u", "nova_sched",
             "--batch", "--skip-column-names", "-e", statement]
        )  # fmt: skip

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name}")

    def _ping(self) -> None:
        self.execute("SELECT 1")
