"""oslo.messaging's RabbitDriver with our listener beside it: the client side stays the library's.

It is built directly into a transport for ``rabbit://``; registering a second driver of that name under the library's
entry point would break every other program of the environment. Private names of oslo.messaging touched in this package
are listed in ``PRIVATE_NAMES`` and checked by a test, since they move between releases.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import oslo_messaging
from oslo_messaging._drivers.impl_rabbit import Connection, RabbitDriver

from nova_sched.rpc.bus.confirms import ConfirmedSender
from nova_sched.rpc.bus.crash import CrashPoint, no_crash
from nova_sched.rpc.bus.intake import Intake, RabbitIntake, StockIntake
from nova_sched.rpc.bus.listener import RabbitListener, Subscription
from nova_sched.rpc.bus.replies import ReplyDesk
from nova_sched.rpc.bus.settings import (
    DEFAULT_PORT,
    LinkSettings,
    Topology,
    read_link_settings,
    read_topology,
)
from nova_sched.service.ports import Observer

PRIVATE_NAMES = (
    "oslo_messaging._drivers.impl_rabbit.RabbitDriver",
    "oslo_messaging._drivers.impl_rabbit.Connection._transform_transport_url",
    "oslo_messaging._drivers.amqpdriver.AMQPDriverBase._connection_pool",
    "oslo_messaging._drivers.pool.ConnectionPool.connection_cls",
    "oslo_messaging.transport.Transport._driver",
    "oslo_messaging.transport.Transport._listen",
    "oslo_messaging._drivers.base.BaseDriver.conf",
    "oslo_messaging._drivers.base.BaseDriver._url",
    "oslo_messaging._drivers.base.BaseDriver._default_exchange",
)


class _QuotingConnection(Connection):  # type: ignore[misc]
    """The library's connection, for any password: its own leaves the slashes of one as they are, and cannot read it then."""

    def _transform_transport_url(
        self,
        url: Any,
        host: Any,
        default_username: str = "",
        default_password: str = "",
        default_hostname: str = "",
    ) -> str:
        user = quote(host.username or default_username, safe="")
        password = quote(host.password or default_password, safe="")
        name = host.hostname or default_hostname
        name = f"[{name}]" if ":" in name and not name.startswith("[") else name
        return f"amqp://{user}:{password}@{name}:{host.port or DEFAULT_PORT}/{quote(url.virtual_host or '', safe='')}"


class LateAckRabbitDriver(RabbitDriver):  # type: ignore[misc]
    """Sends as the library does; takes messages with late acknowledgement through ``intake``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._connection_pool.connection_cls = _QuotingConnection

    @property
    def link_settings(self) -> LinkSettings:
        """How to reach this driver's broker."""
        return read_link_settings(self.conf, self._url)

    def topology(self, exchange: str | None = None) -> Topology:
        """Properties of this driver's exchanges and queues."""
        return read_topology(self.conf, exchange or self._default_exchange)

    def intake(
        self,
        target: oslo_messaging.Target,
        subscription: Subscription,
        crash_point: CrashPoint = no_crash,
        observer: Observer | None = None,
    ) -> RabbitIntake:
        """A consumer of ``target``; nothing is connected before it is opened."""
        link = self.link_settings
        listener = RabbitListener(link, self.topology(target.exchange), subscription, crash_point, observer)
        sender = ConfirmedSender(link, f"nova-sched {subscription.topic}.{subscription.server} replies")
        return RabbitIntake(listener, ReplyDesk(sender))


def rabbit_driver(transport: Any) -> LateAckRabbitDriver | None:
    """The driver behind a transport, if it is ours."""
    driver = transport._driver
    return driver if isinstance(driver, LateAckRabbitDriver) else None


def open_intake(
    transport: oslo_messaging.Transport,
    target: oslo_messaging.Target,
    subscription: Subscription,
    crash_point: CrashPoint = no_crash,
    observer: Observer | None = None,
) -> Intake:
    """The consumer that fits the transport: late acknowledgement on RabbitMQ, the library's own way elsewhere."""
    driver = rabbit_driver(transport)
    if driver is not None:
        return driver.intake(target, subscription, crash_point, observer)
    return StockIntake(transport, target)
