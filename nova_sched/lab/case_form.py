"""The form of a case file: which member is an object, a list or a plain value, so that a wrong one is named.

What a request carries is not looked at: that is for the service's own edge, which the replay runs it through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Optional:
    """A member that may be missing or null."""

    form: Any


#: A form: types; a list of one form; an object by the forms of its members; ``{"": form}``: every member.
_COLUMNS = {
    "": _PLAIN,
    "host": str,
    "hypervisor_hostname": (str, type(None)),
    "service": Optional({"": _PLAIN}),
}
_ROUND = {
    "filter_trace": Optional(list),
    "weighed": Optional([{"host": str, "node": (str, type(None)), "weight": (int, float)}]),
    "choices": Optional(list),
    "limits": Optional(dict),
    "after": Optional(dict),
}
_RESULT = {
    "outcome": str,
    "rounds": Optional([_ROUND]),
    "reason_contains": Optional([str]),
    "casts": Optional([dict]),
    "host_states": Optional(dict),
}
_INSTANCE = {"uuid": str, "host": Optional(str), "node": Optional(str), "vm_state": Optional(str)}
_REQUEST = {
    "method": str,
    "request_spec": dict,
    "filter_properties": Optional(dict),
    "context": Optional(dict),
    "update_hosts": Optional([{"hypervisor_hostname": str, "": _PLAIN}]),
    "set_now": Optional(str),
}
_CASE = {
    "input": {
        "config": Optional(dict),
        "hosts": [_COLUMNS],
        "aggregates": Optional([{"name": str, "hosts": [str], "metadata": Optional({"": str})}]),
        "instances": Optional([_INSTANCE]),
        "server_groups": Optional([{"uuid": str, "name": str, "policies": [str], "members": [str]}]),
        "attestation": Optional([{"host_name": str, "trust_lvl": str}]),
        "now": str,
        "requests": [_REQUEST],
    },
    "expected": Optional({"results": [_RESULT]}),
    "also_accepted": Optional([{"results": [_RESULT]}]),
}


def mistake(data: Any) -> str | None:
    """The first member of a decoded case that has another form, in words; None if there is none."""
    return _mistake("the file", data, _CASE)


def _mistake(where: str, value: Any, form: Any) -> str | None:
    if isinstance(form, Optional):
        return None if value is None else _mistake(where, value, form.form)
    if isinstance(form, list):
        return _in_list(where, value, form[0])
    if isinstance(form, Mapping):
        return _in_object(where, value, form)
    return None if isinstance(value, form) else f"{where}: expected {_named(form)}, found {_shown(value)}"


def _in_list(where: str, values: Any, form: Any) -> str | None:
    if not isinstance(values, list):
        return f"{where}: expected a list, found {_shown(values)}"
    found = (_mistake(f"{where}[{number}]", value, form) for number, value in enumerate(values))
    return next((one for one in found if one), None)


def _in_object(where: str, value: Any, form: Mapping[str, Any]) -> str | None:
    if not isinstance(value, Mapping):
        return f"{where}: expected an object, found {_shown(value)}"
    path = "" if where == "the file" else f"{where}."
    every = form.get("")
    for name, inner in form.items():
        if name and name not in value and not isinstance(inner, Optional):
            return f"{path}{name} is missing"
    for name, found in value.items():
        wanted = form.get(name, every)
        if wanted is not None and (wrong := _mistake(f"{path}{name}", found, wanted)):
            return wrong
    return None


def _named(form: Any) -> str:
    names = {str: "text", int: "number", float: "number", bool: "boolean", dict: "object", list: "list"}
    types = form if isinstance(form, tuple) else (form,)
    return " or ".join(dict.fromkeys(names.get(one, "null") for one in types))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
