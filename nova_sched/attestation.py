"""What the attestation server says about nodes: asked over HTTPS before a decision, kept for a while, given as facts.

The server speaks the OpenAttestation API that Nova's TrustedFilter knew: ``POST <url>/PollHosts`` with
``{"count": n, "hosts": [...]}`` answers ``{"hosts": [{"host_name", "trust_lvl", "vtime"}, ...]}``. A server that
cannot be reached or answers nonsense vouches for nobody: its hosts are ``unknown``.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import requests

from nova_sched.model.facts import Fact, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.filters.trusted import TRUST_KEY, UNKNOWN
from nova_sched.service.ports import FactSource
from nova_sched.settings import TrustedSettings

LOG = logging.getLogger(__name__)

#: Asks about some nodes; answers level by node, nodes it knows nothing about left out. Raises requests' exceptions.
Attest = Callable[[Sequence[str]], Mapping[str, str]]


class AttestationServer:
    """The HTTPS client. The certificate is verified unless ``attestation_insecure_ssl`` says not to (LP#1373993)."""

    def __init__(self, settings: TrustedSettings) -> None:
        self._settings = settings
        path = settings.attestation_api_url.strip("/")
        self._url = f"https://{settings.attestation_server}:{settings.attestation_port}/{path}/PollHosts"

    def __call__(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Levels of these nodes. Raises requests.RequestException (also for time-outs) and ValueError."""
        settings = self._settings
        headers = {"Accept": "application/json"}
        if settings.attestation_auth_blob:
            headers["x-auth-blob"] = settings.attestation_auth_blob
        answer = requests.post(
            self._url,
            json={"count": len(nodes), "hosts": list(nodes)},
            headers=headers,
            timeout=settings.request_timeout_seconds,
            verify=not settings.attestation_insecure_ssl and (settings.attestation_server_ca_file or True),
            allow_redirects=False,
        )
        answer.raise_for_status()
        return _levels(answer.json())


def _levels(body: Any) -> Mapping[str, str]:
    hosts = body.get("hosts") if isinstance(body, dict) else None
    if not isinstance(hosts, list):
        raise ValueError("the answer has no list of hosts")
    return {
        host["host_name"]: host["trust_lvl"]
        for host in hosts
        if isinstance(host, dict)
        and isinstance(host.get("host_name"), str)
        and isinstance(host.get("trust_lvl"), str)
    }


class TrustCache:
    """Levels by node, each believed for ``ttl_seconds`` after it was asked for. Safe for several threads.

    After a failure the server is left alone for ``pause_seconds``, so that one that is down does not slow every batch.
    """

    def __init__(
        self,
        attest: Attest,
        ttl_seconds: float,
        *,
        pause_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._attest = attest
        self._ttl_seconds = ttl_seconds
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._paused_until = -math.inf
        self._kept: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def levels(self, nodes: Collection[str]) -> Mapping[str, str]:
        """Level of each node; one question for all that are not known or too old. A failed one is not kept."""
        with self._lock:
            self._forget(self._clock() - self._ttl_seconds)
            missing = [node for node in nodes if node not in self._kept]
            if missing and self._clock() >= self._paused_until:
                self._ask(missing)
            return {node: self._kept[node][0] if node in self._kept else UNKNOWN for node in nodes}

    def _forget(self, oldest: float) -> None:
        self._kept = {node: kept for node, kept in self._kept.items() if kept[1] > oldest}

    def _ask(self, nodes: Sequence[str]) -> None:
        try:
            found = self._attest(nodes)
        except (requests.RequestException, ValueError) as failure:
            self._paused_until = self._clock() + self._pause_seconds
            LOG.warning("Attestation of %d hosts failed, none of them is trusted: %s", len(nodes), failure)
            return
        now = self._clock()
        self._kept.update((node, (found.get(node, UNKNOWN), now)) for node in nodes)


class AttestedFacts:
    """A :class:`~nova_sched.service.ports.FactSource` that adds trust levels to what another one loads.

    ``nodes``: names of all nodes of the host table at this moment.
    """

    def __init__(self, source: FactSource, trust: TrustCache, nodes: Callable[[], Iterable[str]]) -> None:
        self._source = source
        self._trust = trust
        self._nodes = nodes

    def load(self, requests: Sequence[SchedulingRequest], needs: frozenset[Fact]) -> list[Facts]:
        """Facts of each request; the server is asked only if one of them wants a trust level."""
        facts = self._source.load(requests, needs - {Fact.TRUST})
        wanted = [bool(request.flavor.extra_specs.get(TRUST_KEY)) for request in requests]
        if Fact.TRUST not in needs or not any(wanted):
            return facts
        levels = self._trust.levels(list(self._nodes()))
        return [
            replace(one, trust_levels=levels) if asked else one
            for one, asked in zip(facts, wanted, strict=True)
        ]
