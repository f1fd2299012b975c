"""A decision told host by host: which filter refused which host and why, the weights of the others, and the choice.

The telling is a plain JSON value, bounded in size, so that it is the same over RPC, from an export and in ``-f json``::

    {driver, hosts_total, before, forced, refused, outcomes,
     rounds: [{index, instance, chosen, hosts_seen, hosts_omitted, limits,
               filters: [{name, in, out, reason}],
               hosts: [{host, node, refused_by, reason, weight, weights: [{name, raw, normalised, weighted}]}]}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nova_sched.model.explanation import Explanation, Round
from nova_sched.model.limits import Limits
from nova_sched.model.request import HostNode
from nova_sched.service.ports import DecisionRecord

#: Hosts and rounds that a telling holds; what passed comes first, best weight first.
HOSTS_MAX = 1000
ROUNDS_MAX = 16

Telling = Mapping[str, Any]


def tell(record: DecisionRecord, hosts_max: int = HOSTS_MAX, rounds_max: int = ROUNDS_MAX) -> dict[str, Any]:
    """The telling of a record made with ``Detail.FULL``."""
    told: Explanation = record.explanation
    return {
        "driver": told.driver,
        "hosts_total": told.hosts_total,
        "before": dict(told.before),
        "forced": told.forced,
        "refused": told.refused,
        "outcomes": dict(record.outcomes),
        "rounds": [_round(one, hosts_max) for one in told.rounds[:rounds_max]],
        "rounds_omitted": max(0, len(told.rounds) - rounds_max),
    }


def retell(record: Mapping[str, Any], rounds_max: int = ROUNDS_MAX) -> dict[str, Any]:
    """The telling of a record in its plain form, as the service answers ``explain`` and as the history keeps it."""
    told = record["explanation"]
    return {
        "driver": told["driver"],
        "hosts_total": told["hosts_total"],
        "before": told.get("before", {}),
        "forced": told.get("forced", False),
        "refused": told.get("refused"),
        "outcomes": record["outcomes"],
        "rounds": [_retold(one) for one in told["rounds"][:rounds_max]],
        "rounds_omitted": max(0, len(told["rounds"]) - rounds_max) + told.get("rounds_omitted", 0),
    }


def _retold(one: Mapping[str, Any]) -> dict[str, Any]:
    hosts = [
        _line((host, node)) | {"weight": weight, "weights": [_part(part) for part in parts]}
        for host, node, weight, parts in one["weighed"]
    ]
    for name, refused in one.get("refused", {}).items():
        hosts += [_line(tuple(host)) | {"refused_by": name, "reason": reason} for host, reason in refused]
    steps = [dict(zip(("name", "in", "out", "reason"), [*step, None], strict=False)) for step in one["steps"]]
    return {
        "index": one["index"],
        "instance": one["instance"],
        "chosen": one["chosen"],
        "hosts_seen": one["hosts_seen"],
        "hosts_omitted": max(0, one["hosts_seen"] - len(hosts)),
        "limits": None,
        "filters": steps,
        "hosts": hosts,
    }


def _part(part: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("name", "raw", "normalised", "weighted"), part, strict=True))


def _round(one: Round, hosts_max: int) -> dict[str, Any]:
    hosts = [*_passed(one), *_refused(one)]
    return {
        "index": one.index,
        "instance": one.instance.uuid,
        "chosen": None if one.chosen is None else list(one.chosen),
        "hosts_seen": one.hosts_seen,
        "hosts_omitted": max(0, len(hosts) - hosts_max),
        "limits": None if one.limits is None else _limits(one.limits),
        "filters": [
            {"name": step.name, "in": step.hosts_in, "out": step.hosts_out, "reason": step.reason}
            for step in one.steps
        ],
        "hosts": hosts[:hosts_max],
    }


def _passed(one: Round) -> list[dict[str, Any]]:
    if not one.weighed:
        return [_line(name) for name in one.filtered or ()]
    return [
        _line((weighed.host, weighed.node))
        | {
            "weight": weighed.weight,
            "weights": [_part(part) for part in weighed.parts],
        }
        for weighed in one.weighed
    ]


def _refused(one: Round) -> Iterable[dict[str, Any]]:
    """Hosts that a filter took out. The first filter's are those it names, since nobody lists who entered it."""
    before: set[HostNode] | None = None
    for step in one.steps:
        left = set(step.hosts or ())
        reasons = dict(step.refused)
        gone = sorted(reasons.keys() if before is None else before - left, key=_by_name)
        for name in gone:
            yield _line(name) | {"refused_by": step.name, "reason": reasons.get(name, step.reason)}
        before = left


def _line(name: HostNode) -> dict[str, Any]:
    return {
        "host": name[0],
        "node": name[1],
        "refused_by": None,
        "reason": None,
        "weight": None,
        "weights": [],
    }


def _by_name(name: HostNode) -> tuple[str, str]:
    return name[0], name[1] or ""


def _limits(limits: Limits) -> dict[str, Any]:
    """Limits that are set; cells of NUMA limits as they are."""
    return {key: _plain(value) for key, value in asdict(limits).items() if value not in (None, False)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(value)
    return [_plain(member) for member in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class Difference:
    """One host that two configurations see differently in one round. Verdicts: see :func:`verdict`."""

    index: int
    host: str
    node: str | None
    here: str
    there: str


def differences(here: Telling, there: Telling) -> list[Difference]:
    """Host by host, where the second telling of the same request departs from the first."""
    found: list[Difference] = []
    rounds = max(len(here["rounds"]), len(there["rounds"]))
    for index in range(rounds):
        one, other = (_verdicts(telling, index) for telling in (here, there))
        for name in sorted(one.keys() | other.keys(), key=_by_name):
            pair = one.get(name, "not asked"), other.get(name, "not asked")
            if pair[0] != pair[1]:
                found.append(Difference(index, *name, *pair))
    return found


def _verdicts(telling: Telling, index: int) -> dict[HostNode, str]:
    if index >= len(telling["rounds"]):
        return {}
    one = telling["rounds"][index]
    return {(line["host"], line["node"]): verdict(line, one["chosen"]) for line in one["hosts"]}


def verdict(line: Mapping[str, Any], chosen: list[Any] | None) -> str:
    """What became of one host in one sentence."""
    if line["refused_by"] is not None:
        return f"refused by {line['refused_by']}: {line['reason']}"
    weight = "" if line["weight"] is None else f", weight {line['weight']:.6g}"
    return ("chosen" if chosen == [line["host"], line["node"]] else "passed") + weight
