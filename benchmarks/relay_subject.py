"""The least that any scheduler on this bus must do: one cast in, one cast and three notifications out, nothing else.

``stock``: oslo.messaging's RPC server, client and notifier as every OpenStack service uses them. ``kombu``: the library
below it, each message confirmed. Prints ``ready``; ends when its standard input is closed.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
import threading
from typing import Any

FIELDS = (
    "request_spec",
    "admin_password",
    "injected_files",
    "requested_networks",
    "is_first_time",
    "filter_properties",
)


def stock(url: str, threads: int, quorum: bool) -> Any:
    """Start a stock relay; what to call to stop it."""
    import oslo_messaging
    from oslo_config import cfg
    from oslo_messaging import opts

    class Context:
        def __init__(self, values: dict[str, Any]) -> None:
            self._values = values

        def to_dict(self) -> dict[str, Any]:
            return self._values

        redacted_copy = to_dict

    class Endpoint:
        target = oslo_messaging.Target(version="3.0")

        def run_instance(self, context: dict[str, Any], **arguments: Any) -> None:
            spec = arguments["request_spec"]
            payload = {"request_spec": spec}
            notifier.info(context, "scheduler.run_instance.start", payload)
            notifier.info(
                context,
                "scheduler.run_instance.scheduled",
                {**payload, "instance_id": spec["instance_uuids"][0]},
            )
            wire = {name: arguments[name] for name in FIELDS}
            client.prepare(server="host-1").cast(context, "run_instance", node="node-1", **wire)
            notifier.info(context, "scheduler.run_instance.end", payload)

    conf = cfg.CONF
    conf([], project="relay", default_config_files=[])
    for group, options in opts.list_opts():
        conf.register_opts(options, group=group)
    conf.set_override("control_exchange", "nova")
    conf.set_override("amqp_durable_queues", True, group="oslo_messaging_rabbit")
    conf.set_override("rabbit_quorum_queue", quorum, group="oslo_messaging_rabbit")
    transport = oslo_messaging.get_rpc_transport(conf, url=url)
    client = oslo_messaging.get_rpc_client(transport, oslo_messaging.Target(topic="compute", version="3.27"))
    notifier = oslo_messaging.Notifier(
        oslo_messaging.get_notification_transport(conf, url=url), publisher_id="scheduler.relay", driver="messaging",
        topics=["notifications"],
    )  # fmt: skip
    conf.set_override("executor_thread_pool_size", threads)
    server = oslo_messaging.get_rpc_server(
        transport,
        oslo_messaging.Target(topic="scheduler", server="relay"),
        [Endpoint()],
        executor="threading",
    )
    server.start()
    return server.stop


def raw(url: str, quorum: bool) -> Any:
    """Start a relay on kombu alone; what to call to stop it."""
    import json

    kombu: Any = importlib.import_module("kombu")

    arguments = {"x-queue-type": "quorum"} if quorum else None
    address = url.replace("rabbit://", "amqp://")
    connection = kombu.Connection(address)
    # Waiting for a confirm reads the connection, so deliveries come by another one.
    sending = kombu.Connection(address, transport_options={"confirm_publish": True})
    exchange = kombu.Exchange("nova", "topic", durable=True)
    queue = kombu.Queue("scheduler", exchange, "scheduler", durable=True, queue_arguments=arguments)
    producer = sending.Producer(exchange=exchange)

    def send(message: Any, key: str) -> None:
        producer.publish(message, routing_key=key, serializer="json", delivery_mode=2)

    def relay(body: Any, message: Any) -> None:
        inner = json.loads(body["oslo.message"])
        spec = inner["args"]["request_spec"]
        for event in ("start", "scheduled"):
            send(
                {"event_type": f"scheduler.run_instance.{event}", "payload": {"request_spec": spec}},
                "notifications.info",
            )
        cast = {
            "method": "run_instance",
            "version": "3.27",
            "args": {name: inner["args"][name] for name in FIELDS},
        }
        send({"oslo.version": "2.0", "oslo.message": json.dumps(cast)}, "compute.host-1")
        send(
            {"event_type": "scheduler.run_instance.end", "payload": {"request_spec": spec}},
            "notifications.info",
        )
        message.ack()

    consumer = connection.Consumer([queue], callbacks=[relay], accept=["json"], prefetch_count=100)
    stopping = threading.Event()

    def run() -> None:
        with consumer:
            while not stopping.is_set():
                try:
                    connection.drain_events(timeout=0.2)
                except TimeoutError:
                    continue

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def stop() -> None:
        stopping.set()
        thread.join()

    return stop


def main() -> None:
    """Relay until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("stock", "kombu"), required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quorum", action="store_true")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    if options.kind == "stock":
        stop = stock(options.url, options.threads, options.quorum)
    else:
        stop = raw(options.url, options.quorum)
    print("ready", flush=True)
    sys.stdin.read()
    stop()


if __name__ == "__main__":
    main()
