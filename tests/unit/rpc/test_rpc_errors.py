"""Errors keep their meaning over the wire, and nothing that a message names is ever imported."""

from __future__ import annotations

import json
import sys

import oslo_messaging
import pytest
from oslo_messaging._drivers import common

from nova_sched import errors
from nova_sched.rpc import errors as wire


def failure(error: Exception) -> dict[str, object]:
    """What travels, decoded."""
    text = wire.to_wire(error).as_json(error, with_trace=False)
    decoded: dict[str, object] = json.loads(text)
    return decoded


def test_no_valid_host_travels_under_novas_name() -> None:
    """Module, class and arguments as a Juno scheduler sent them (recorded), with a reason that says something."""
    sent = failure(errors.NoValidHost("no host has 10000000 MB"))
    assert sent == {
        "class": "NoValidHost",
        "module": "nova.exception",
        "message": "No valid host was found. no host has 10000000 MB",
        "args": ["No valid host was found. no host has 10000000 MB"],
        "kwargs": {"reason": "no host has 10000000 MB", "code": 500},
        "tb": ["NoValidHost: No valid host was found. no host has 10000000 MB\n"],
    }
    assert failure(errors.RequestRefused("JsonFilter", "x"))["class"] == "NoValidHost"


def test_a_stock_client_gets_what_we_sent() -> None:
    """oslo.messaging's own reader makes a RemoteError of it (or Nova's class, where nova is allowed)."""
    text = wire.to_wire(errors.NoValidHost("full")).as_json(errors.NoValidHost("full"), with_trace=False)
    remote = common.deserialize_remote_exception(text, [])
    assert isinstance(remote, oslo_messaging.RemoteError)
    assert remote.exc_type == "NoValidHost"


@pytest.mark.parametrize(
    "error",
    [
        errors.NoValidHost("no host has room"),
        errors.InstanceNotFound("5a6e0000-0000-4000-8000-000000000001"),
        errors.MalformedMessage("vcpus: expected a number"),
        errors.StoreUnavailable("database away"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_our_client_raises_ours(error: errors.SchedulerError) -> None:
    """There and back: the same class with the same text, over JSON and over in-process transports."""
    text = wire.to_wire(error).as_json(error, with_trace=False)
    over_json = wire.from_remote(common.deserialize_remote_exception(text, []))
    in_process = wire.from_remote(wire.to_wire(error).as_exception())
    for back in (over_json, in_process):
        assert type(back) is type(error)
        assert str(back) == str(error)


def test_unknown_failures_stay_what_they_are() -> None:
    """A remote error we have no class for is raised as the library gives it."""
    remote = oslo_messaging.RemoteError("KeyError", "'x'", [])
    assert wire.from_remote(remote) is remote


def test_a_module_named_by_a_failure_is_not_imported() -> None:
    """A reply cannot make us load code (LP#1031719)."""
    text = json.dumps(
        {"class": "system", "module": "antigravity", "message": "m", "args": [], "kwargs": {}, "tb": []}
    )
    remote = common.deserialize_remote_exception(text, [])
    assert isinstance(remote, oslo_messaging.RemoteError)
    assert wire.from_remote(remote) is remote
    assert "antigravity" not in sys.modules


def test_only_unexpected_errors_carry_a_traceback() -> None:
    """A normal answer is not a crash (LP#1192693)."""
    assert wire.is_expected(errors.NoValidHost("x"))
    assert not wire.is_expected(KeyError("x"))
    error = KeyError("x")
    traced = json.loads(wire.to_wire(error).as_json(error, with_trace=True))
    assert traced["class"] == "KeyError"
    assert traced["tb"]
