"""Retry bookkeeping of a request: which attempt this is, what was tried, and what travels on.

``run_instance`` counts here, as Juno's ``populate_retry``; forced placement and ``scheduler_max_attempts`` = 1 switch
counting off (cases 070 to 083). The other methods were counted by their caller (case 323). Data that is not counted
travels as it came, with the chosen host added (case fuzz_012).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from oslo_utils import strutils

from nova_sched.model.request import HostNode, InstanceRef, Retry
from nova_sched.model.secrets import without
from nova_sched.wire.validate import Refused, amount, text

TRIED_MAX = 1000
_ERROR_TEXT_MAX = 150


@dataclass(frozen=True, slots=True)
class Attempts:
    """What ``retry`` of the message means: number of this attempt, data to send, pairs tried, attempts used up."""

    attempt: int
    retry: Retry | None
    tried: tuple[HostNode, ...]
    exceeded: bool = False


def count(method: str, data: Mapping[str, Any], forced: bool, max_attempts: int) -> Attempts:
    """Count the attempt of a message with this ``retry`` (empty where it had none). Raises Refused."""
    before = amount("retry.num_attempts", data.get("num_attempts"))
    tried = _tried(data.get("hosts"))
    uncounted = Retry(before, tried, _extras(data)) if data else None
    if forced or max_attempts == 1:
        return Attempts(1, uncounted, tried)
    if method == "run_instance":
        return Attempts(
            before + 1, Retry(before + 1, tried, _extras(data, "exc")), tried, before >= max_attempts
        )
    return Attempts(before + 1, uncounted, tried, exceeded=method == "prep_resize" and before > max_attempts)


def exceeded(
    data: Mapping[str, Any],
    max_attempts: int,
    instances: tuple[InstanceRef, ...],
    secrets: Set[str] = frozenset(),
) -> str:
    """Reason of a request whose attempts are used up: the last real error first, so that it survives any cut.

    :param secrets: texts of the request that the compute may have quoted.
    """
    named = f" for instance {instances[0].uuid}" if len(instances) == 1 else ""
    limit = f"Exceeded max scheduling attempts {max_attempts}{named}."
    last = _last_error(data.get("exc"), secrets)
    return f"{last} -- {limit}" if last else limit


def _extras(data: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in ("num_attempts", "hosts", *left_out)}


def _tried(hosts: Any) -> tuple[HostNode, ...]:
    """(host, node) pairs; lists and tuples alike, since JSON makes the ones from the others."""
    if not hosts:
        return ()
    if not isinstance(hosts, list | tuple) or len(hosts) > TRIED_MAX:
        raise Refused(f"retry.hosts: expected a list of at most {TRIED_MAX}")
    return tuple(_pair(item) for item in hosts)


def _pair(item: Any) -> HostNode:
    if not isinstance(item, list | tuple) or len(item) != 2:
        raise Refused("retry.hosts: every entry must be [host, node]")
    host, node = text("retry.hosts", item[0]), text("retry.hosts", item[1])
    if host is None:
        raise Refused("retry.hosts: every entry must name a host")
    return (host, node)


def _last_error(exc: Any, secrets: Set[str]) -> str:
    """Last line of what the compute said, masked and bounded; empty where it said nothing."""
    if isinstance(exc, list | tuple):
        exc = "\n".join(item for item in exc if isinstance(item, str))
    if not isinstance(exc, str):
        return ""
    # First by value: a secret with quotes or line breaks in it would only be masked, or cut, in part.
    lines = [line.strip() for line in without(exc, secrets).splitlines() if line.strip()]
    masked: str = strutils.mask_password(lines[-1][:_ERROR_TEXT_MAX]) if lines else ""
    return masked
