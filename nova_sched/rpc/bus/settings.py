"""What one connection and its declarations need, as frozen values read once from oslo.messaging's own options."""

from __future__ import annotations

import random
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DEFAULT_PORT = 5672


@dataclass(frozen=True, slots=True)
class BrokerHost:
    """One host of ``transport_url``."""

    hostname: str
    port: int = DEFAULT_PORT
    username: str = "guest"
    password: str = field(default="guest", repr=False)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS to the broker; certificate and host name are always verified.

    ``ca_file`` None: the system's authorities.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def for_host(self, hostname: str) -> dict[str, Any]:
        """Arguments of py-amqp's ``ssl`` parameter."""
        options: dict[str, Any] = {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": hostname}
        if self.ca_file:
            options["ca_certs"] = self.ca_file
        if self.cert_file:
            options["certfile"] = self.cert_file
            options["keyfile"] = self.key_file or self.cert_file
        return options


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """How to reach the broker and how to notice that it is gone."""

    hosts: tuple[BrokerHost, ...] = (BrokerHost("localhost"),)
    virtual_host: str = "/"
    tls: TlsSettings | None = None
    login_method: str = "AMQPLAIN"
    heartbeat_seconds: int = 60
    connect_timeout_seconds: float = 5.0
    write_timeout_seconds: float = 15.0
    tcp_user_timeout_seconds: float = 60.0
    """py-amqp's own value of 1 s tears a connection down whenever the broker stops reading (memory alarm)."""
    reconnect_delay_seconds: float = 1.0
    reconnect_splay_seconds: float = 1.0
    reconnect_delay_max_seconds: float = 30.0

    def delay_seconds(self, attempt: int, spread: random.Random) -> float:
        """Pause before reconnecting: none for each host's first try, then doubling with jitter up to the maximum."""
        rounds = attempt // max(1, len(self.hosts))
        if rounds == 0:
            return spread.uniform(0, min(0.2, self.reconnect_splay_seconds))
        base = min(
            self.reconnect_delay_max_seconds, self.reconnect_delay_seconds * float(1 << min(rounds - 1, 10))
        )
        return base + spread.uniform(0, self.reconnect_splay_seconds)


@dataclass(frozen=True, slots=True)
class Topology:
    """Properties with which exchanges and queues are declared; they must equal what the broker has already."""

    exchange: str = "nova"
    durable: bool = True
    auto_delete: bool = False
    queue_arguments: Mapping[str, Any] = field(default_factory=dict)
    transient_durable: bool = False
    transient_arguments: Mapping[str, Any] = field(default_factory=dict)


def read_link_settings(conf: Any, url: Any) -> LinkSettings:
    """Connection settings from an oslo.config object (options of ``[oslo_messaging_rabbit]``) and a TransportURL."""
    options = conf.oslo_messaging_rabbit
    hosts = tuple(
        BrokerHost(
            host.hostname or "localhost",
            host.port or DEFAULT_PORT,
            host.username or "guest",
            host.password if host.password is not None else "guest",
        )
        for host in url.hosts
    )
    tls = None
    if options.ssl:
        tls = TlsSettings(
            options.ssl_ca_file or None, options.ssl_cert_file or None, options.ssl_key_file or None
        )
    return LinkSettings(
        hosts=hosts or (BrokerHost("localhost"),),
        virtual_host=url.virtual_host or "/",
        tls=tls,
        login_method=options.rabbit_login_method,
        heartbeat_seconds=options.heartbeat_timeout_threshold,
        reconnect_delay_seconds=max(0.1, options.kombu_reconnect_delay),
        reconnect_splay_seconds=max(0.1, options.kombu_reconnect_splay),
        reconnect_delay_max_seconds=max(1, options.rabbit_interval_max),
    )


def read_topology(conf: Any, exchange: str) -> Topology:
    """Declarations exactly as oslo.messaging's rabbit driver would make them under the same options."""
    options = conf.oslo_messaging_rabbit
    limits = {
        "x-delivery-limit": options.rabbit_quorum_delivery_limit,
        "x-max-in-memory-length": options.rabbit_quorum_max_memory_length,
        "x-max-in-memory-bytes": options.rabbit_quorum_max_memory_bytes,
    }
    quorum = {"x-queue-type": "quorum", **{argument: value for argument, value in limits.items() if value}}
    lasting: dict[str, Any] = dict(quorum) if options.rabbit_quorum_queue else {}
    passing: dict[str, Any] = dict(quorum) if options.rabbit_transient_quorum_queue else {}
    if options.rabbit_ha_queues:
        lasting["x-ha-policy"] = passing["x-ha-policy"] = "all"
    if options.rabbit_transient_queues_ttl > 0:
        passing["x-expires"] = options.rabbit_transient_queues_ttl * 1000
    return Topology(
        exchange=exchange,
        durable=bool(options.amqp_durable_queues or options.rabbit_quorum_queue),
        auto_delete=options.amqp_auto_delete,
        queue_arguments=lasting,
        transient_durable=bool(options.rabbit_transient_quorum_queue),
        transient_arguments=passing,
    )
