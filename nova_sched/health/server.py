"""The health port: ``/metrics``, ``/livez``, ``/readyz`` and the read-only page, for all workers of one service.

Binds to loopback by default; everything is GET, nothing can be changed through it.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import prometheus_client
from prometheus_client import multiprocess

from nova_sched.health.folder import forget_dead
from nova_sched.health.page import PAGE
from nova_sched.health.readiness import Check, Probe, Samples
from nova_sched.settings import HealthSettings

LOG = logging.getLogger(__name__)
Snapshot = Callable[[], Mapping[str, Any]]


def merged_registry() -> prometheus_client.CollectorRegistry:
    """Registry that merges the files of all workers; gauges of those that are gone do not count."""
    forget_dead()
    registry = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


def samples_of(registry: prometheus_client.CollectorRegistry) -> Samples:
    """Every sample by name and sorted labels; a gauge kept per process loses nothing, its ``pid`` is a label."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


class HealthServer:
    """Serves one registry. ``snapshot``: data of the page and of ``nova-sched top``; None = no page."""

    def __init__(
        self,
        settings: HealthSettings,
        registry: Callable[[], prometheus_client.CollectorRegistry] = merged_registry,
        snapshot: Snapshot | None = None,
    ) -> None:
        self._registry = registry
        self._snapshot = snapshot
        self._probe = Probe(host_state_max_age_seconds=settings.host_state_max_age_seconds)
        self._server = ThreadingHTTPServer((settings.bind, settings.port), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def port(self) -> int:
        """Port bound, also when 0 was asked for."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Serve in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving; may be called before :meth:`start`."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(timeout=5)
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body for one path."""
        if path == "/metrics":
            return (
                HTTPStatus.OK,
                prometheus_client.CONTENT_TYPE_LATEST,
                prometheus_client.generate_latest(self._registry()),
            )
        if path in ("/livez", "/readyz"):
            samples = samples_of(self._registry())
            checks = self._probe.live(samples) if path == "/livez" else self._probe.ready(samples)
            return _probe_answer(checks)
        if self._snapshot is not None and path == "/state.json":
            return HTTPStatus.OK, "application/json", json.dumps(self._snapshot()).encode()
        if self._snapshot is not None and path == "/":
            return HTTPStatus.OK, "text/html; charset=utf-8", PAGE
        return HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"no such page\n"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                try:
                    status, kind, body = answer(self.path.partition("?")[0])
                except Exception:
                    LOG.exception("health page %s failed", self.path)
                    status, kind, body = HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"not available now\n"
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.send_header(
                    "Content-Security-Policy",
                    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
                )
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                LOG.debug("%s", format % args)

        return Handler


def _probe_answer(checks: list[Check]) -> tuple[int, str, bytes]:
    good = all(check.ok for check in checks)
    lines = [f"[{'+' if check.ok else '-'}] {check.name}: {check.found}" for check in checks]
    lines.append("ok" if good else "not ok")
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return status, "text/plain; charset=utf-8", ("\n".join(lines) + "\n").encode()
