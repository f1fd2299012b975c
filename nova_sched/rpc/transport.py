"""Transports from an oslo.config object: ours for ``rabbit://``, oslo.messaging's own for every other scheme."""

from __future__ import annotations

import ssl
from typing import Any

import oslo_messaging
from oslo_messaging import opts as messaging_opts
from oslo_messaging import transport as transport_module
from oslo_messaging._drivers import amqp as amqp_module
from oslo_messaging._drivers.impl_fake import FakeDriver
from oslo_messaging._metrics import client as metrics_client
from oslo_messaging._tracing import client as tracing_client
from oslo_messaging.notify import notifier as notifier_module
from oslo_messaging.transport import NotificationTransport, RPCTransport

from nova_sched.rpc.bus.driver import LateAckRabbitDriver

_RABBIT_SCHEMES = ("rabbit", "kombu")


def register_options(
    conf: Any, *, durable: bool = True, quorum: bool = False, exchange: str = "nova"
) -> None:
    """Register every option oslo.messaging may read from ``conf`` and set the defaults this service runs with.

    With a private ConfigOpts the library's tracing and metrics options would be missing, and its RPC server would lose
    each message silently after acknowledging it. Values in a configuration file win over these defaults.
    """
    for group, options in messaging_opts.list_opts():
        conf.register_opts(options, group=group)
    # The library registers these two groups on the global object only and reads them from the transport's.
    conf.register_opts(tracing_client.oslo_messaging_tracing, group="oslo_messaging_tracing")
    conf.register_opts(metrics_client.oslo_messaging_metrics, group="oslo_messaging_metrics")
    conf.set_default("control_exchange", exchange)
    rabbit = "oslo_messaging_rabbit"
    conf.set_default("amqp_durable_queues", durable, group=rabbit)
    conf.set_default("rabbit_quorum_queue", quorum, group=rabbit)
    conf.set_default("kombu_reconnect_splay", 1.0, group=rabbit)
    conf.set_default("heartbeat_timeout_threshold", 60, group=rabbit)


def shared_options() -> list[Any]:
    """oslo.messaging's own option objects, not copies: for programs that print defaults and should print ours."""
    return [*transport_module._transport_opts, *notifier_module._notifier_opts, *amqp_module.amqp_opts]


def get_transport(conf: Any, url: str | None = None) -> RPCTransport:
    """The transport for RPC; call ``register_options`` first. Nothing is connected yet.

    No module of a remote exception is ever imported; ``rpc.errors`` translates by name.
    """
    parsed = oslo_messaging.TransportURL.parse(conf, url)
    if parsed.transport in _RABBIT_SCHEMES:
        return RPCTransport(_late_ack_driver(conf, parsed))
    return oslo_messaging.get_rpc_transport(conf, url=parsed, allowed_remote_exmods=[])


def get_notification_transport(conf: Any, url: str | None = None) -> Any:
    """The transport for notifications: ``[oslo_messaging_notifications] transport_url``, else the one of RPC."""
    chosen = url or conf.oslo_messaging_notifications.transport_url
    parsed = oslo_messaging.TransportURL.parse(conf, chosen)
    if parsed.transport in _RABBIT_SCHEMES:
        return NotificationTransport(_late_ack_driver(conf, parsed))
    return oslo_messaging.get_notification_transport(conf, url=parsed)


def close_transport(transport: Any) -> None:
    """Give a transport's connections back. The in-process bus stays: clearing it would drop what others have queued."""
    if not isinstance(transport._driver, FakeDriver):
        transport.cleanup()


def _late_ack_driver(conf: Any, url: oslo_messaging.TransportURL) -> LateAckRabbitDriver:
    url.transport = "rabbit"
    options = conf.oslo_messaging_rabbit
    if options.ssl and not options.ssl_ca_file:
        _verify_by_default(conf)
    return LateAckRabbitDriver(conf, url, default_exchange=conf.control_exchange, allowed_remote_exmods=[])


def _verify_by_default(conf: Any) -> None:
    """Without a CA file the library's own connections would verify nothing: give them the system's authorities."""
    system = ssl.get_default_verify_paths().cafile
    if system:
        conf.set_default("ssl_ca_file", system, group="oslo_messaging_rabbit")
