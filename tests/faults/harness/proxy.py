"""A TCP proxy that can fall silent: bytes are swallowed, no FIN and no RST is sent, as after a pulled cable."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading


class Proxy:
    """Forwards 127.0.0.1:``port`` to a target; ``freeze`` makes every connection of that moment half-open."""

    def __init__(self, target_port: int, port: int = 0) -> None:
        self._target = ("127.0.0.1", target_port)
        self._server = socket.create_server(("127.0.0.1", port))
        self._server.setblocking(False)
        self.port = int(self._server.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ, None)
        self._peers: dict[socket.socket, socket.socket] = {}
        self._frozen: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    @property
    def connections(self) -> int:
        """Connections that pass bytes."""
        with self._lock:
            return (len(self._peers) - len(self._frozen)) // 2

    def freeze(self) -> int:
        """Let the connections that exist go silent; new ones work. How many there were."""
        with self._lock:
            fresh = [one for one in self._peers if one not in self._frozen]
            for one in fresh:
                self._selector.unregister(one)
                self._frozen.add(one)
            return len(fresh) // 2

    def close(self) -> None:
        """Cut everything."""
        self._stopping.set()
        self._thread.join(5)
        for one in [*self._peers, self._server]:
            one.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._selector.select(0.1):
                if key.fileobj is self._server:
                    self._accept()
                else:
                    self._forward(key.fileobj)  # type: ignore[arg-type]

    def _accept(self) -> None:
        near, _ = self._server.accept()
        try:
            far = socket.create_connection(self._target, timeout=2)
        except OSError:
            near.close()
            return
        near.settimeout(10)
        far.settimeout(10)
        with self._lock:
            self._peers[near], self._peers[far] = far, near
            for one in (near, far):
                self._selector.register(one, selectors.EVENT_READ, True)

    def _forward(self, source: socket.socket) -> None:
        with self._lock:
            if source in self._frozen or source not in self._peers:
                return
            sink = self._peers[source]
        try:
            data = source.recv(1 << 16)
            if data:
                sink.sendall(data)
                return
        except OSError:
            data = b""
        self._drop(source, sink)

    def _drop(self, *pair: socket.socket) -> None:
        with self._lock:
            for one in pair:
                self._peers.pop(one, None)
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(one)
                one.close()
