"""Errors across the wire, by table: own class on the inside, Nova's names on the outside, and back.

A Nova caller rebuilds the exception from ``module``, ``class``, ``args`` and ``kwargs`` of the failure, so ours are
sent under Nova's names with the arguments its classes take. Our client never imports what a message names: it looks
the class name up in the same table.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import oslo_messaging

from nova_sched import errors

NOVA_MODULE = "nova.exception"
_NO_HOST_TEXT = "No valid host was found. "
_UUID = re.compile(r"Instance (\S+) could not be found")


@dataclass(frozen=True, slots=True)
class WireError:
    """A failure as it travels."""

    module: str
    name: str
    message: str
    kwargs: dict[str, Any]

    def as_exception(self) -> Exception:
        """An exception whose class has the wire's names, for transports that serialise exceptions themselves."""
        twin = type(self.name, (Exception,), {"__module__": self.module})
        error: Exception = twin(self.message)
        error.kwargs = self.kwargs  # type: ignore[attr-defined]
        return error

    def as_json(self, error: BaseException, with_trace: bool) -> str:
        """The ``failure`` text of a reply; ``with_trace`` adds the traceback for unexpected errors."""
        lines = traceback.format_exception(error) if with_trace else [f"{self.name}: {self.message}\n"]
        return json.dumps(
            {
                "class": self.name,
                "module": self.module,
                "message": self.message,
                "tb": lines,
                "args": [self.message],
                "kwargs": self.kwargs,
            }
        )


def to_wire(error: BaseException) -> WireError:
    """How an exception travels; classes outside of the table keep their own names and no arguments but their text."""
    if isinstance(error, errors.NoValidHost):
        kwargs = {"reason": error.reason, "code": error.code}
        return WireError(NOVA_MODULE, "NoValidHost", _NO_HOST_TEXT + error.reason, kwargs)
    if isinstance(error, errors.InstanceNotFound):
        return WireError(
            NOVA_MODULE, "InstanceNotFound", str(error), {"instance_id": error.uuid, "code": 404}
        )
    kind = type(error)
    return WireError(kind.__module__, kind.__name__, str(error), {})


def is_expected(error: BaseException) -> bool:
    """A normal answer, which is neither logged as a crash nor sent with a traceback."""
    return isinstance(error, errors.SchedulerError | oslo_messaging.RPCDispatcherError)


def from_remote(error: BaseException) -> BaseException:
    """What a client should raise for a failure it received; anything unknown comes back unchanged."""
    if isinstance(error, oslo_messaging.RemoteError):
        name, text = str(error.exc_type or ""), str(error.value or "")
    else:
        name, text = type(error).__name__.removesuffix("_Remote"), str(error)
    rebuild = _REBUILD.get(name)
    return rebuild(text) if rebuild is not None else error


def _no_valid_host(text: str) -> errors.NoValidHost:
    return errors.NoValidHost(text.split("\n")[0].removeprefix(_NO_HOST_TEXT) or "no valid host was found")


def _instance_not_found(text: str) -> errors.InstanceNotFound:
    found = _UUID.search(text)
    return errors.InstanceNotFound(found.group(1) if found else text)


_REBUILD: dict[str, Callable[[str], BaseException]] = {
    "NoValidHost": _no_valid_host,
    "InstanceNotFound": _instance_not_found,
    "MalformedMessage": errors.MalformedMessage,
    "StoreUnavailable": errors.StoreUnavailable,
    "BusUnavailable": errors.BusUnavailable,
}
