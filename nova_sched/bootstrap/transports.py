"""Transports for a parsed configuration, with durability as ``[delivery]`` says."""

from __future__ import annotations

import dataclasses
from typing import Any

from nova_sched.rpc import transport
from nova_sched.rpc.notifications import NotificationSettings
from nova_sched.settings import Settings


def rpc_transport(conf: Any, settings: Settings) -> Any:
    """Transport for calls and casts; connects on first use."""
    prepare(conf, settings)
    return transport.get_transport(conf)


def notification_transport(conf: Any, settings: Settings) -> Any:
    """Transport for notifications: ``[oslo_messaging_notifications] transport_url`` or that of RPC."""
    prepare(conf, settings)
    return transport.get_notification_transport(conf)


def notification_settings(conf: Any, settings: Settings) -> NotificationSettings:
    """What the notifier needs. Raises ConfigurationError for an unknown driver.

    The library's "for ever" (-1) is not taken over: a notification bus that is down must not hold INFO events without
    bound, and ERROR events stay in the outbox anyway.
    """
    found = NotificationSettings(
        drivers=settings.bus.notification_drivers,
        topics=settings.bus.notification_topics,
        timeout_seconds=settings.delivery.publish_timeout_seconds,
    )
    retry = conf.oslo_messaging_notifications.retry
    return (dataclasses.replace(found, retry=retry) if retry >= 0 else found).checked()


def prepare(conf: Any, settings: Settings) -> None:
    """Register the library's options where they are missing and set what our own options say about them."""
    transport.register_options(
        conf,
        durable=settings.delivery.durable_queues,
        quorum=settings.delivery.quorum_queues,
        exchange=settings.bus.control_exchange,
    )
