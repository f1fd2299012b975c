"""A heartbeat that waited in the broker says nothing of the host's life any more (rows of delivery: late reports)."""

from __future__ import annotations

from urllib.parse import urlsplit

import amqp

from nova_sched.rpc import transport as transports
from nova_sched.rpcapi import ReportAPI
from nova_sched.testing.servers import RabbitServer
from tests.integration.rpc.conftest import make_conf, until

QUEUE = "scheduler_report"


def _broker(rabbit: RabbitServer, vhost: str) -> amqp.Connection:
    url = urlsplit(rabbit.transport_url(vhost))
    connection = amqp.Connection(
        f"{url.hostname}:{url.port}", userid=url.username, password=url.password, virtual_host=vhost
    )
    connection.connect()
    return connection


def test_report_state_expires_after_two_intervals_and_update_instance_never(
    rabbit: RabbitServer, rabbit_vhost: str
):
    """Only words about instances are still in the queue once two intervals have passed."""
    with _broker(rabbit, rabbit_vhost) as connection, connection.channel() as channel:
        channel.exchange_declare("nova", "topic", durable=True, auto_delete=False)
        channel.queue_declare(QUEUE, durable=True, auto_delete=False)
        channel.queue_bind(QUEUE, "nova", QUEUE)
        api = ReportAPI(transports.get_transport(make_conf(), rabbit.transport_url(rabbit_vhost)))
        service = {"host": "h", "epoch": 1, "seq": 1, "interval_seconds": 0.25, "version": "1"}
        api.report_state({}, service=service, nodes=[])
        api.update_instance({}, "u", 1, "h", "n", "active")
        until(lambda: channel.queue_declare(QUEUE, passive=True).message_count == 1)
        message = channel.basic_get(QUEUE, no_ack=True)
        assert "update_instance" in message.body
        assert "expiration" not in message.properties
