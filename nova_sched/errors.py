"""Every exception of the service, as one tree.

::

    SchedulerError
    ├── NoValidHost                 no host for an instance; a normal answer, travels as Nova's NoValidHost
    │   └── RequestRefused          the request itself cannot be served (names the filter and the value)
    ├── MalformedMessage            a message or an argument is not what the schema says; dead letter or ERROR
    ├── InstanceNotFound            no such instance; travels typed
    ├── HostNotFound                no such host (command line, reads)
    ├── ServerGroupNotFound         no such server group (command line, reads)
    ├── AggregateNotFound           no such aggregate (command line, reads)
    ├── DecisionNotFound            no such decision record, or no longer (command line, reads)
    ├── PluginError                 a filter, weigher or driver broke; names it, never removes hosts
    ├── ConfigurationError          an option has a wrong value: option, value, expectation; stops the start
    │   └── UnknownPlugin           a plugin name that nobody registered; lists the known ones
    ├── StoreUnavailable            SQL cannot be reached or gave up; the batch is held, nothing is acknowledged
    └── BusUnavailable              the broker cannot be reached or is blocked; nothing is acknowledged
        └── QueueMismatch           a queue or exchange exists with other properties; stops the start
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class SchedulerError(Exception):
    """Root of the tree; never raised itself."""


class NoValidHost(SchedulerError):
    """No host was found for one or more instances.

    Caught by the batch, which sets the instances to ERROR, and by the RPC layer, which sends it typed.

    :ivar reason: non-empty sentence for the fault and the ERROR event; names no hosts.
    """

    code = 500

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RequestRefused(NoValidHost):
    """The request is broken or asks for what is not enabled; no host would change that.

    :ivar plugin: filter, weigher or stage that refused, e.g. ``JsonFilter``.
    """

    def __init__(self, plugin: str, reason: str) -> None:
        super().__init__(f"{plugin}: {reason}")
        self.plugin = plugin


class MalformedMessage(SchedulerError):
    """A message or argument has a wrong shape, type or amount.

    :ivar reason: what was expected and what was found, without the values of secrets.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InstanceNotFound(SchedulerError):
    """No instance with that uuid is known."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"Instance {uuid} could not be found.")
        self.uuid = uuid


class HostNotFound(SchedulerError):
    """No host of that name is known."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Host {name} could not be found.")


class ServerGroupNotFound(SchedulerError):
    """No server group of that name or uuid is known."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Server group {name} could not be found.")


class AggregateNotFound(SchedulerError):
    """No aggregate of that name or id is known."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Aggregate {name} could not be found.")


class DecisionNotFound(SchedulerError):
    """No such decision is recorded, or it was kept no longer.

    :param what: ``Decision 7``, ``A decision about <uuid>``.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} could not be found; records are kept for a while only.")


class PluginError(SchedulerError):
    """A filter, weigher or driver raised or broke its contract; the request fails and names it.

    :ivar plugin: class name of the plugin.
    """

    def __init__(self, plugin: str, cause: BaseException | str) -> None:
        detail = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        super().__init__(f"{plugin} failed: {detail}")
        self.plugin = plugin


class ConfigurationError(SchedulerError):
    """An option has a value that the service cannot run with.

    :param option: name as in the file, ``group.option`` outside of ``[DEFAULT]``.
    :param value: the value found.
    :param expected: what would be accepted.
    """

    def __init__(self, option: str, value: object, expected: str) -> None:
        super().__init__(f"{option} = {value!r}: expected {expected}")
        self.option = option
        self.value = value
        self.expected = expected


class UnknownPlugin(ConfigurationError):
    """A driver, filter or weigher name that neither entry points nor an import resolve.

    :param known: each plugin once; ``aliases``: other names they go by, for the hint only.
    :param why: what else is known of it, without a full stop.
    """

    def __init__(
        self, option: str, value: object, known: Iterable[str], why: str = "", aliases: Iterable[str] = ()
    ) -> None:
        names = sorted(known)
        super().__init__(option, value, f"one of {', '.join(names)}, or a dotted path")
        near = get_close_matches(str(value), [*names, *aliases], n=1)
        hints = [*filter(None, [why]), *(f"did you mean {name}?" for name in near)]
        if hints:
            stop = "" if near else "."
            self.args = (f"{option} = {value!r}: {'; '.join(hints)}{stop} Expected {self.expected}",)


class StoreUnavailable(SchedulerError):
    """SQL is away, or a transaction could not be finished within its retries."""


class BusUnavailable(SchedulerError):
    """The broker is away or blocks publishers."""


class QueueMismatch(BusUnavailable):
    """A queue or exchange exists with other properties than the configured ones."""
