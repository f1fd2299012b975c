"""One node of a private RabbitMQ: its files, its process, and the faults that hit one node alone."""

from __future__ import annotations

import signal
import socket
import time

from nova_sched.testing.servers.erlang import ErlangControl
from nova_sched.testing.servers.process import Home, ServerFailed, find_program, free_port, wait_until
from nova_sched.testing.servers.tls import TlsFiles

_START_TIMEOUT_SECONDS = 120.0
_STOP_TIMEOUT_SECONDS = 30.0


class RabbitNode:
    """One node of a private broker. Made by `RabbitServer`; use it for faults that hit one node of a cluster."""

    def __init__(
        self, home: Home, control: ErlangControl, name: str, epmd_port: int, tls: TlsFiles | None
    ) -> None:
        self._control = control
        self.name = f"{name}@localhost"
        self.port = free_port()
        self.tls_port = free_port() if tls else None
        config = [
            f"listeners.tcp.1 = 127.0.0.1:{self.port}",
            "disk_free_limit.absolute = 1MB",
            "log.console = true",
            "log.file = false",
        ]
        if tls:
            names = {"cacertfile": tls.ca, "certfile": tls.certificate, "keyfile": tls.key}
            copies = {
                option: home.write(f"{name}-{option}.pem", path.read_text()) for option, path in names.items()
            }
            config += [f"ssl_options.{option} = {path}" for option, path in copies.items()]
            config += [f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}", "ssl_options.verify = verify_none"]
        base = home.folder(name)
        env = home.environment(
            RABBITMQ_NODENAME=self.name,
            RABBITMQ_DIST_PORT=str(free_port()),
            RABBITMQ_CONF_ENV_FILE=str(home.write(f"{name}-env.conf", "")),
            RABBITMQ_CONFIG_FILE=str(home.write(f"{name}.conf", "\n".join(config) + "\n")),
            # A fresh count of a quorum queue's messages every second instead of every five.
            RABBITMQ_ADVANCED_CONFIG_FILE=str(
                home.write(f"{name}.config", "[{rabbit, [{quorum_tick_interval, 1000}]}].\n")
            ),
            RABBITMQ_ENABLED_PLUGINS_FILE=str(home.write(f"{name}-plugins", "[].\n")),
            RABBITMQ_MNESIA_BASE=str(base),
            RABBITMQ_LOG_BASE=str(base),
            RABBITMQ_GENERATED_CONFIG_DIR=str(base),
            RABBITMQ_PID_FILE=str(base / "pid"),
            RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
            ERL_EPMD_PORT=str(epmd_port),
            ERL_CRASH_DUMP_SECONDS="0",
        )
        program = find_program("rabbitmq-server", "rabbitmq-server", "/usr/lib/rabbitmq/bin")
        self._process = home.process(name, [program], env)

    @property
    def running(self) -> bool:
        """True while the node's process lives, whatever the state of the broker in it."""
        return self._process.running

    @property
    def serving(self) -> bool:
        """True while the broker in the node runs."""
        try:
            return self.eval("rabbit:is_running()") == "true"
        except ServerFailed:
            return False

    @property
    def alarmed(self) -> bool:
        """True while memory or disk of this node is the reason why publishers are blocked."""
        return self.name in self.eval("rabbit_alarm:get_alarms()")

    def eval(self, expression: str) -> str:
        """Evaluate an Erlang expression on this node (see `ErlangControl.eval`)."""
        return self._control.eval(self.name, expression)

    def start(self) -> None:
        """Start the node, or only the broker in it where that was stopped, and wait until it takes clients."""
        if self.running and not self.serving:
            self.eval("rabbit:start()")
        self._process.start()
        wait_until(
            self._takes_clients,
            _START_TIMEOUT_SECONDS,
            lambda: f"{self.name} did not start:\n{self._process.log_tail()}",
        )

    def stop(self) -> None:
        """Shut the node down in good order."""
        if not self.running:
            return
        try:
            self.eval("init:stop()")
            deadline = time.monotonic() + _STOP_TIMEOUT_SECONDS
            while self.running and time.monotonic() < deadline:
                time.sleep(0.05)
        except ServerFailed:
            pass  # A node that no longer listens to us gets the signal below.
        self._process.stop(signal.SIGTERM, _STOP_TIMEOUT_SECONDS)

    def kill(self) -> None:
        """`kill -9`: the node and all it started are gone at once, as in a power cut."""
        self._process.kill()

    def restart(self) -> None:
        """Stop in good order, then start."""
        self.stop()
        self.start()

    def stop_app(self) -> None:
        """Stop the broker inside the living node (`rabbitmqctl stop_app`): quicker than a whole stop, and `start` too."""
        self.eval("rabbit:stop()")

    def set_memory_watermark(self, fraction: float) -> None:
        """Set the share of memory above which publishers are blocked (0: always), and wait until that holds."""
        self.eval(f"vm_memory_monitor:set_vm_memory_high_watermark({fraction})")
        wait_until(
            lambda: self.alarmed == (fraction == 0),
            10,
            lambda: f"{self.name} did not change its memory alarm",
        )

    def join(self, other: RabbitNode) -> None:
        """Make this fresh node a member of the other's cluster."""
        answer = self.eval(
            f"begin rabbit:stop(), R = rabbit_mnesia:join_cluster('{other.name}', disc), rabbit:start(), R end"
        )
        if answer != "ok":
            raise ServerFailed(f"{self.name} could not join {other.name}: {answer}")

    def _takes_clients(self) -> bool:
        if not self.running:
            raise ServerFailed(f"{self.name} ended while starting:\n{self._process.log_tail()}")
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return self.serving
        except OSError:
            return False
