"""Looks at the broker as a doctor does: exchanges, queues, rights and what waits. Nothing is made, moved or lost.

Every look has a connection of its own, since the broker answers "no" by closing the channel.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import amqp

from nova_sched.errors import BusUnavailable, QueueMismatch
from nova_sched.model.symptom import Symptom, fine, odd, wrong
from nova_sched.rpc.bus.driver import rabbit_driver
from nova_sched.rpc.bus.link import LINK_ERRORS, Link
from nova_sched.rpc.bus.settings import LinkSettings, Topology
from nova_sched.rpc.bus.topology import (
    ExchangeDeclaration,
    QueueDeclaration,
    control_exchange,
    lasting_queue,
)
from nova_sched.rpc.dead_letters import letter_queue
from nova_sched.settings import BusSettings

RIGHTS = "give the user the permission set of the security guide"
WAITING_MANY = 1000


@dataclass(frozen=True, slots=True)
class _Queue:
    messages: int
    consumers: int


def check_bus(transport: Any, bus: BusSettings) -> list[Symptom]:
    """What is found on the broker behind a transport; of other transports there is nothing to see."""
    driver = rabbit_driver(transport)
    if driver is None:
        return [
            odd("broker", "the transport is not RabbitMQ: at most once, no dead letters", "use rabbit://")
        ]
    return _Checkup(driver.link_settings, driver.topology(), bus).run()


class _Checkup:
    def __init__(self, settings: LinkSettings, topology: Topology, bus: BusSettings) -> None:
        self._settings = settings
        self._topology = topology
        self._bus = bus

    def run(self) -> list[Symptom]:
        hosts = ", ".join(f"{host.hostname}:{host.port}" for host in self._settings.hosts)
        try:
            with self._channel():
                found = [fine("broker", f"{hosts} lets us in to virtual host {self._settings.virtual_host}")]
        except BusUnavailable as away:
            return [
                wrong("broker", str(away), "start the broker, or correct transport_url, user or virtual host")
            ]
        if self._settings.tls is None and any(
            host.hostname not in ("localhost", "127.0.0.1", "::1") for host in self._settings.hosts
        ):
            found.append(odd("broker", "is reached without TLS", "set [oslo_messaging_rabbit] ssl = true"))
        exchange = control_exchange(self._topology)
        found.append(self._exchange(exchange))
        for topic, what in ((self._bus.scheduler_topic, "scheduler"), (self._bus.report_topic, "reports")):
            found += self._topic(topic, what)
        found += self._dead_letters()
        found.append(self._writing(exchange))
        return found

    def _exchange(self, exchange: ExchangeDeclaration) -> Symptom:
        check = f"exchange {exchange.name}"
        if self._ask(lambda c: c.exchange_declare(exchange.name, exchange.kind, passive=True)) is None:
            return wrong(check, "does not exist", "start nova-sched-scheduler, which makes it")
        return self._same(check, exchange)

    def _topic(self, topic: str, what: str) -> Iterator[Symptom]:
        check = f"queue {topic}"
        queue = self._look(topic)
        if queue is None:
            yield wrong(check, "does not exist", "start nova-sched-scheduler, which makes it")
            return
        yield self._same(check, lasting_queue(self._topology, topic))
        waits = f"{queue.messages} messages wait, {queue.consumers} workers consume"
        if not queue.consumers:
            yield wrong(f"{what} consumers", waits, "start nova-sched-scheduler")
        elif queue.messages > WAITING_MANY:
            yield odd(
                f"{what} consumers", waits, "add workers or schedulers; see the metrics for what is slow"
            )
        else:
            yield fine(f"{what} consumers", waits)

    def _dead_letters(self) -> Iterator[Symptom]:
        name = self._bus.dead_letter_queue
        queue = self._look(name)
        if queue is None:
            yield fine(f"queue {name}", "does not exist: no message was ever given up")
            return
        yield self._same(f"queue {name}", letter_queue(name, self._topology))
        if queue.messages:
            yield wrong(
                "dead letters",
                f"{queue.messages} wait",
                "nova-sched-manage dead-letter list; then requeue or let them expire",
            )
        else:
            yield fine("dead letters", "none")

    def _same(self, check: str, declared: ExchangeDeclaration | QueueDeclaration) -> Symptom:
        """Declare what exists once more: the broker compares, and asks for the right to configure."""
        try:
            self._ask(declared.declare)
        except QueueMismatch as mismatch:
            return wrong(
                check, str(mismatch).partition("; ")[0], "delete it in the broker, or set the option it names"
            )
        except BusUnavailable as refused:
            return wrong(check, str(refused), RIGHTS)
        return fine(check, "as configured")

    def _writing(self, exchange: ExchangeDeclaration) -> Symptom:
        """A message that no queue takes: published, confirmed and gone."""
        key = f"doctor.{uuid.uuid4().hex}"

        def publish(channel: amqp.Channel) -> bool:
            channel.confirm_select()
            channel.basic_publish_confirm(amqp.Message(b"{}"), exchange.name, key)
            return True

        try:
            if self._ask(publish) is None:
                return wrong(
                    "publishing", f"there is no exchange {exchange.name}", "start nova-sched-scheduler"
                )
        except BusUnavailable as refused:
            return wrong("publishing", str(refused), RIGHTS)
        return fine("publishing", f"exchange {exchange.name} takes messages and confirms them")

    def _look(self, name: str) -> _Queue | None:
        found: Any = self._ask(lambda channel: channel.queue_declare(name, passive=True))
        return None if found is None else _Queue(found.message_count, found.consumer_count)

    def _ask(self, question: Callable[[amqp.Channel], Any]) -> Any:
        """The broker's answer (True for none), None for "no such thing". Raises BusUnavailable, QueueMismatch."""
        with self._channel() as channel:
            try:
                answer = question(channel)
            except amqp.NotFound:
                return None
            except QueueMismatch:
                raise
            except amqp.AccessRefused as refused:
                raise BusUnavailable(" ".join(str(refused.reply_text).split())) from refused
        return True if answer is None else answer

    @contextmanager
    def _channel(self) -> Iterator[amqp.Channel]:
        link = Link(self._settings, "nova-sched doctor")
        try:
            for left in range(len(self._settings.hosts) - 1, -1, -1):
                try:
                    link.open()
                    break
                except BusUnavailable:
                    if not left:
                        raise
            yield link.channel
        except LINK_ERRORS as error:
            raise BusUnavailable(" ".join(f"{type(error).__name__}: {error}".split())) from error
        finally:
            link.farewell()
