"""From a message to an endpoint's method, and what the answer means."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import oslo_messaging
from oslo_messaging.rpc.dispatcher import ExplicitRPCAccessPolicy, RPCDispatcher

from nova_sched.errors import MalformedMessage
from nova_sched.rpc import errors
from nova_sched.rpc.bus.taken import Taken
from nova_sched.rpc.deferred import Deferred, UnansweredError

LOG = logging.getLogger(__name__)

_COMPLAINTS_MAX = 1000


class Dispatch:
    """oslo.messaging's dispatcher over these endpoints; only methods marked with ``rpc.expose`` exist."""

    def __init__(self, endpoints: Sequence[Any]) -> None:
        self._endpoints = list(endpoints)
        self._dispatcher = RPCDispatcher(list(endpoints), None, ExplicitRPCAccessPolicy)
        self._complained: set[str] = set()

    def submit(self, taken: Taken) -> Any:
        """The result, a Deferred, or the exception that was raised; never raises itself."""
        try:
            return self._dispatcher.dispatch(taken)
        except oslo_messaging.ExpectedException as expected:
            return expected.exc_info[1]
        except Exception as error:
            return error

    def report(self, taken: Taken, error: BaseException) -> None:
        """Log a failure as what it is: a normal answer, a message nobody understands, or a fault of ours."""
        if isinstance(error, oslo_messaging.RPCDispatcherError):
            self._complain(taken, error)
        elif errors.is_expected(error):
            LOG.info("%s: %s: %s", taken.method, type(error).__name__, error)
        else:
            LOG.error("%s failed: %s: %s", taken.method, type(error).__name__, error, exc_info=error)

    def _complain(self, taken: Taken, error: BaseException) -> None:
        """Unknown methods and versions: once each, with what would have been accepted."""
        namespace, version = taken.message.get("namespace"), taken.message.get("version", "1.0")
        wanted = f"{namespace} {version} {taken.method}"[:200]
        if wanted in self._complained or len(self._complained) > _COMPLAINTS_MAX:
            return
        self._complained.add(wanted)
        LOG.warning(
            "a message asks for method %r, version %s, namespace %s (%s); supported: %s",
            taken.method[:100],
            version,
            namespace,
            type(error).__name__,
            self._supported(),
        )

    def _supported(self) -> str:
        ranges = []
        for endpoint in self._endpoints:
            target = getattr(endpoint, "target", None) or oslo_messaging.Target()
            version = target.version or "1.0"
            ranges.append(f"{target.namespace or 'no namespace'} {version.split('.')[0]}.0 to {version}")
        return ", ".join(ranges)


def settled(promise: Any) -> Any:
    """What a submitted message came to: its result, or the exception in its place."""
    if not isinstance(promise, Deferred):
        return promise
    try:
        return promise.result()
    except Exception as error:
        return error


def is_answer(error: BaseException) -> bool:
    """A failure that a cast may end with, everything being recorded elsewhere."""
    return errors.is_expected(error) and not isinstance(
        error, MalformedMessage | UnansweredError | oslo_messaging.RPCDispatcherError
    )
