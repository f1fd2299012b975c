"""Private RabbitMQ: one node or a cluster, on free ports of 127.0.0.1, with its own cookie and port mapper."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from nova_sched.testing.servers.erlang import ErlangControl, binary
from nova_sched.testing.servers.process import Home, ServerFailed, find_program, free_port
from nova_sched.testing.servers.rabbit_node import RabbitNode
from nova_sched.testing.servers.tls import TlsFiles

_DEFAULT_WATERMARK = 0.4
_GUEST = "guest"
_ACTOR = '<<"tests">>'


class RabbitServer:
    """A private broker of `size` nodes; a context manager that leaves nothing behind.

    `with RabbitServer() as rabbit:` starts it, `rabbit.transport_url(vhost)` is what oslo.messaging wants. The verbs of
    administration (vhosts, users, queues, alarms) work on any node that runs.

    :raises MissingServer: when RabbitMQ is not installed.
    """

    def __init__(self, size: int = 1, tls: TlsFiles | None = None) -> None:
        program = find_program("epmd", "rabbitmq-server")
        self._home = Home("rabbit", "rabbitmq")
        cookie = secrets.token_hex(16)
        self._home.write(".erlang.cookie", cookie, 0o400)
        epmd_port = free_port()
        self._epmd = self._home.process("epmd", [program, "-port", str(epmd_port), "-address", "127.0.0.1"])
        self._control = ErlangControl(self._home, cookie, epmd_port)
        self._vhost_numbers = itertools.count(1)
        self.nodes = [
            RabbitNode(self._home, self._control, f"rabbit{n}", epmd_port, tls) for n in range(1, size + 1)
        ]
        self._formed = False

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

    # Life and death

    def start(self) -> None:
        """Start all nodes; the first time a cluster is formed as well."""
        self._epmd.start()
        self._each(RabbitNode.start)
        if not self._formed:
            for node in self.nodes[1:]:
                node.join(self.nodes[0])
            self._formed = True

    def stop(self) -> None:
        """Shut all nodes down in good order; messages that were persistent are there after `start`."""
        self._each(RabbitNode.stop)

    def restart(self) -> None:
        """Stop in good order, then start."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """`kill -9` for all nodes."""
        self._each(RabbitNode.kill)

    def close(self) -> None:
        """Kill all that runs and remove the folders."""
        self._control.close()
        self._home.close()

    def repair(self) -> None:
        """Bring back what an earlier test broke: start nodes and brokers that are down, clear the alarm (milliseconds when all is well)."""
        self.start()
        for node in self.nodes:
            if node.alarmed:
                self.unblock()

    def _each(self, verb: Callable[[RabbitNode], None]) -> None:
        # Together, not one by one: a cluster's node waits for the last one that was stopped.
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(verb, self.nodes))

    # Addresses

    @property
    def port(self) -> int:
        """AMQP port of the first node."""
        return self.nodes[0].port

    def transport_url(self, vhost: str = "/", user: str = _GUEST, password: str = _GUEST) -> str:
        """Return an oslo.messaging URL that names every node."""
        return self._url("127.0.0.1", [node.port for node in self.nodes], vhost, user, password)

    def tls_transport_url(self, vhost: str = "/", host: str = "localhost") -> str:
        """Return the URL of the TLS listeners, for clients that call the machine `host`."""
        ports = [node.tls_port for node in self.nodes if node.tls_port is not None]
        return self._url(host, ports, vhost, _GUEST, _GUEST)

    @staticmethod
    def _url(host: str, ports: Iterable[int], vhost: str, user: str, password: str) -> str:
        account = f"{quote(user, safe='')}:{quote(password, safe='')}"
        return f"rabbit://{','.join(f'{account}@{host}:{port}' for port in ports)}/{quote(vhost, safe='')}"

    # Administration

    def eval(self, expression: str) -> str:
        """Evaluate an Erlang expression on the first node that runs (see `ErlangControl.eval`)."""
        return self._alive().eval(expression)

    def create_vhost(self, name: str | None = None) -> str:
        """Make a virtual host for the user guest and return its name (milliseconds)."""
        name = name or f"v{next(self._vhost_numbers)}"
        self.eval(
            f"begin rabbit_vhost:add({binary(name)}, {_ACTOR}), rabbit_auth_backend_internal:set_permissions("
            f'<<"guest">>, {binary(name)}, <<".*">>, <<".*">>, <<".*">>, {_ACTOR}) end'
        )
        return name

    def delete_vhost(self, name: str) -> None:
        """Remove a virtual host with all its queues; its connections are closed. Unknown names are fine."""
        self.eval(f"catch rabbit_vhost:delete({binary(name)}, {_ACTOR})")

    @contextmanager
    def vhost(self) -> Iterator[str]:
        """A fresh virtual host for the length of a `with`."""
        name = self.create_vhost()
        try:
            yield name
        finally:
            self.delete_vhost(name)

    def add_user(self, name: str, password: str) -> None:
        """Make a user without any permission."""
        self.eval(f"rabbit_auth_backend_internal:add_user({binary(name)}, {binary(password)}, {_ACTOR})")

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        """Set what a user may do in a virtual host: three regular expressions over names of queues and exchanges."""
        words = ", ".join(binary(word) for word in (user, vhost, configure, write, read))
        self.eval(f"rabbit_auth_backend_internal:set_permissions({words}, {_ACTOR})")

    def queues(self, vhost: str) -> dict[str, dict[str, Any]]:
        """Return each queue of a virtual host: `messages`, `ready`, `unacknowledged`, `consumers`, `durable`, `type`, `leader`.

        The three counts are exact, and None while a quorum queue has no leader.
        """
        rows = self._control.json(
            self._alive().name,
            # A quorum queue's own figures lag by a tick, so its state machine is asked; without a leader nobody knows.
            "begin Ask = fun(Pid, F) -> case ra:leader_query(Pid, F) of {ok, {_, N}, _} -> N; _ -> null end end,"
            " Sum = fun(null, _) -> null; (_, null) -> null; (A, B) -> A + B end,"
            " Counts = fun(rabbit_quorum_queue, Q) -> P = amqqueue:get_pid(Q),"
            " {Ask(P, fun rabbit_fifo:query_messages_ready/1), Ask(P, fun rabbit_fifo:query_messages_checked_out/1)};"
            " (_, Q) -> [{_, R}, {_, U}] = rabbit_amqqueue:info(Q, [messages_ready, messages_unacknowledged]), {R, U} end,"
            " Leader = fun({_, Node}) -> Node; (P) -> node(P) end,"
            " [#{name => element(4, amqqueue:get_name(Q)), ready => R, unacknowledged => U, messages => Sum(R, U),"
            " consumers => proplists:get_value(consumers, rabbit_amqqueue:info(Q, [consumers]), 0), durable => amqqueue:is_durable(Q),"
            " type => amqqueue:get_type(Q), leader => Leader(amqqueue:get_pid(Q))}"
            f" || Q <- rabbit_amqqueue:list({binary(vhost)}), {{R, U}} <- [Counts(amqqueue:get_type(Q), Q)]] end",
        )
        short = {
            "rabbit_classic_queue": "classic",
            "rabbit_quorum_queue": "quorum",
            "rabbit_stream_queue": "stream",
        }
        return {row.pop("name"): {**row, "type": short[row["type"]]} for row in rows}

    def purge(self, vhost: str, queue: str) -> None:
        """Drop the messages of a queue that are ready."""
        self._with_queue(vhost, queue, "rabbit_amqqueue:purge(Q)")

    def delete_queue(self, vhost: str, queue: str) -> None:
        """Remove a queue with its messages."""
        self._with_queue(vhost, queue, f"rabbit_amqqueue:delete(Q, false, false, {_ACTOR})")

    def exchanges(self, vhost: str) -> dict[str, dict[str, Any]]:
        """Return each exchange of a virtual host: `type`, `durable`."""
        rows = self._control.json(
            self._alive().name,
            "[#{name => element(4, proplists:get_value(name, I)), type => proplists:get_value(type, I),"
            f" durable => proplists:get_value(durable, I)}} || I <- rabbit_exchange:info_all({binary(vhost)}, [name, type, durable])]",
        )
        return {row.pop("name"): row for row in rows}

    def connection_count(self, vhost: str | None = None) -> int:
        """Count the open client connections (of one virtual host)."""
        return int(self.eval(f"length({self._connections(vhost)})"))

    def close_connections(self, vhost: str | None = None) -> int:
        """Close the client connections (of one virtual host) as an operator would; returns how many there were."""
        return int(
            self.eval(
                f'length([rabbit_networking:close_connection(P, "closed by a test") || P <- {self._connections(vhost)}])'
            )
        )

    def drop_connections(self, vhost: str | None = None) -> int:
        """Cut the client connections without an AMQP goodbye; returns how many there were."""
        return int(self.eval(f"length([exit(P, kill) || P <- {self._connections(vhost)}])"))

    def block(self) -> None:
        """Raise the memory alarm on every node that runs: publishers are blocked until `unblock`."""
        self._watermark(0)

    def unblock(self) -> None:
        """Clear the memory alarm."""
        self._watermark(_DEFAULT_WATERMARK)

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """A blocked broker for the length of a `with`."""
        self.block()
        try:
            yield
        finally:
            self.unblock()

    def queue_leader(self, vhost: str, queue: str) -> RabbitNode:
        """Return the node that leads a queue: the one to kill."""
        leader = self.queues(vhost)[queue]["leader"]
        return next(node for node in self.nodes if node.name == leader)

    def _alive(self) -> RabbitNode:
        for node in self.nodes:
            if node.running:
                return node
        raise ServerFailed("no node of the private broker runs")

    def _running(self) -> Iterable[RabbitNode]:
        return [node for node in self.nodes if node.running]

    def _watermark(self, fraction: float) -> None:
        for node in self._running():
            node.set_memory_watermark(fraction)

    def _with_queue(self, vhost: str, queue: str, call: str) -> None:
        name = f"rabbit_misc:r({binary(vhost)}, queue, {binary(queue)})"
        self.eval(f"case rabbit_amqqueue:lookup({name}) of {{ok, Q}} -> {call} end")

    @staticmethod
    def _connections(vhost: str | None) -> str:
        if vhost is None:
            return "rabbit_networking:connections()"
        return f"[C || C <- rabbit_networking:connections(), (catch rabbit_networking:connection_info(C, [vhost])) == [{{vhost, {binary(vhost)}}}]]"
