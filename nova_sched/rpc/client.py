"""A client of one topic that speaks our errors: what ``rpcapi`` and agents stand on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import oslo_messaging
from kombu.exceptions import KombuError

from nova_sched.errors import BusUnavailable
from nova_sched.rpc import errors

#: The library lets kombu's own errors through where the very first connection fails.
_UNSENT = (oslo_messaging.MessageDeliveryFailure, KombuError)


class RpcClient:
    """Calls and casts to one topic.

    :param version: version of the API spoken; ``cap`` is the highest the other side takes (None: no limit).
    :param timeout_seconds: of calls.
    :param retry: attempts to reach the broker after the first; -1 for ever.
    """

    def __init__(
        self,
        transport: Any,
        topic: str,
        version: str,
        *,
        namespace: str | None = None,
        cap: str | None = None,
        timeout_seconds: float = 60.0,
        retry: int = 3,
    ) -> None:
        self._client = oslo_messaging.get_rpc_client(
            transport,
            oslo_messaging.Target(topic=topic, version=version, namespace=namespace),
            timeout=timeout_seconds,
            version_cap=cap,
            retry=retry,
        )
        self._topic = topic

    def can_send(self, version: str) -> bool:
        """Whether the cap allows this version."""
        return bool(self._client.can_send_version(version))

    def call(self, context: Mapping[str, Any], method: str, version: str, **arguments: Any) -> Any:
        """The result.

        :raises NoValidHost, InstanceNotFound, MalformedMessage: as the other side answered.
        :raises BusUnavailable: no broker, or no answer in time.
        """
        try:
            return self._client.prepare(version=version).call(dict(context), method, **arguments)
        except oslo_messaging.MessagingTimeout as error:
            raise BusUnavailable(f"no answer to {method} on topic {self._topic} in time") from error
        except _UNSENT as error:
            raise BusUnavailable(f"{method} could not be sent: {error}") from error
        except Exception as error:
            translated = errors.from_remote(error)
            if translated is error:
                raise
            raise translated from None

    def cast(
        self,
        context: Mapping[str, Any],
        method: str,
        version: str,
        server: str | None = None,
        expiration_seconds: float | None = None,
        **arguments: Any,
    ) -> None:
        """Send without an answer; the broker has put it into a queue when this returns.

        :param expiration_seconds: the broker drops it when nobody took it for that long; None: never.
        :raises BusUnavailable: no broker, or no queue of that topic (nobody ever listened there).
        """
        options = oslo_messaging.TransportOptions(at_least_once=True)
        prepared = {"version": version, "transport_options": options}
        if server is not None:
            prepared["server"] = server
        call = self._client.prepare(**prepared)
        if expiration_seconds is not None:
            call.transport = _Expiring(call.transport, expiration_seconds)
        try:
            call.cast(dict(context), method, **arguments)
        except oslo_messaging.MessageUndeliverable as error:
            raise BusUnavailable(
                f"no queue takes {method}: nobody has listened on topic {self._topic} yet"
            ) from error
        except _UNSENT as error:
            raise BusUnavailable(f"{method} could not be sent: {error}") from error


class _Expiring:
    """A transport whose casts expire: the library's own form of that exists for calls only (its ``timeout``)."""

    def __init__(self, transport: Any, expiration_seconds: float) -> None:
        self._transport = transport
        self._seconds = expiration_seconds

    def _send(self, target: Any, context: Any, message: Any, **options: Any) -> Any:
        return self._transport._send(target, context, message, timeout=self._seconds, **options)
