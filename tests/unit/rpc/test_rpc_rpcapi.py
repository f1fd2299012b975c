"""What our clients put on the wire, under every cap."""

from __future__ import annotations

import inspect
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from nova_sched.errors import BusUnavailable, ConfigurationError, NoValidHost
from nova_sched.rpc import transport as transports
from nova_sched.rpcapi import ReportAPI, SchedulerAPI, scheduler_cap
from nova_sched.settings import BusSettings


class Recorder:
    """Stands in for the transport's sending end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        conf = cfg.ConfigOpts()
        transports.register_options(conf)
        conf([], project="test")
        self.transport = transports.get_transport(conf, "fake://")
        self.sent: list[tuple[Any, dict[str, Any], dict[str, Any], bool]] = []
        self.answer: Any = None
        monkeypatch.setattr(self.transport, "_send", self.send)

    def send(self, target: Any, context: Any, message: Any, wait_for_reply: bool = False, **_: Any) -> Any:
        self.sent.append((target, context, message, wait_for_reply))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(monkeypatch)


CALLS: list[tuple[str, dict[str, Any], str | None, str, bool]] = [
    (
        "run_instance",
        {
            "request_spec": {}, "admin_password": None, "injected_files": [], "requested_networks": None,
            "is_first_time": True, "filter_properties": {}, "legacy_bdm_in_spec": False,
        },
        None, "3.0", False,
    ),
    (
        "prep_resize",
        {
            "instance": {}, "instance_type": {}, "image": {}, "request_spec": {}, "filter_properties": {}, "reservations": [],
        },
        None, "3.0", False,
    ),
    ("select_destinations", {"request_spec": {}, "filter_properties": {}}, None, "3.0", True),
    ("ping", {"arg": 1}, "baseapi", "1.0", True),
    ("explain", {"request_spec": {}, "filter_properties": {}}, "nova_sched", "1.0", True),
    ("get_instance", {"uuid": "u"}, "nova_sched", "1.0", True),
    ("delete_instance", {"uuid": "u"}, "nova_sched", "1.0", False),
    ("get_hosts", {"marker": None, "limit": 5}, "nova_sched", "1.0", True),
]  # fmt: skip


@pytest.mark.parametrize("method, arguments, namespace, version, call", CALLS, ids=[row[0] for row in CALLS])
@pytest.mark.parametrize("cap", [None, "auto", "icehouse", "juno", "3.0", "3.5"])
def test_every_method_under_every_cap(
    recorder: Recorder,
    cap: str | None,
    method: str,
    arguments: dict[str, Any],
    namespace: str,
    version: str,
    call: bool,
) -> None:
    """The exact message: method, arguments by name, version, namespace, call or cast (LP#1309334, LP#1574615)."""
    api = SchedulerAPI(recorder.transport, BusSettings(scheduler_version_cap=cap))
    getattr(api, method)({"request_id": "r"}, **arguments)
    target, context, message, waits = recorder.sent[0]
    expected = {"method": method, "args": arguments, "version": version}
    if namespace:
        expected["namespace"] = namespace
    assert message == expected
    assert (target.topic, target.server, waits) == ("scheduler", None, call)
    assert context == {"request_id": "r"}


def test_every_public_method_is_in_the_table() -> None:
    """A new method without a golden message fails here."""
    public = {
        name for name, _ in inspect.getmembers(SchedulerAPI, inspect.isfunction) if not name.startswith("_")
    }
    assert public == {row[0] for row in CALLS}


@pytest.mark.parametrize("cap", ["havana", "2.9", "4.0", "3", "x", ""])
def test_a_cap_that_cannot_be_met_is_refused(cap: str) -> None:
    """With the option's name and what would be accepted."""
    with pytest.raises(ConfigurationError, match="upgrade_levels"):
        scheduler_cap(cap)


def test_reports_go_to_their_own_topic(recorder: Recorder) -> None:
    """Never in front of builds."""
    api = ReportAPI(recorder.transport, BusSettings(report_topic="r"))
    api.report_state({}, {"host": "h"}, [{"hypervisor_hostname": "n"}])
    api.update_instance({}, "u", 2, "h", "n", "failed", "boom")
    assert [
        (target.topic, message["method"], message["version"]) for target, _, message, _ in recorder.sent
    ] == [
        ("r", "report_state", "1.0"),
        ("r", "update_instance", "1.0"),
    ]
    assert recorder.sent[1][2]["args"] == {
        "uuid": "u", "attempt": 2, "host": "h", "node": "n", "state": "failed", "reason": "boom",
    }  # fmt: skip


@pytest.mark.parametrize(
    "raised, expected",
    [
        (oslo_messaging.MessagingTimeout("t"), BusUnavailable),
        (oslo_messaging.MessageDeliveryFailure("d"), BusUnavailable),
        (oslo_messaging.RemoteError("NoValidHost", "No valid host was found. full", []), NoValidHost),
    ],
    ids=["no answer", "no broker", "no host"],
)
def test_calls_raise_our_errors(recorder: Recorder, raised: Exception, expected: type[Exception]) -> None:
    """One tree of exceptions, whatever library lies below."""
    recorder.answer = raised
    with pytest.raises(expected):
        SchedulerAPI(recorder.transport).select_destinations({}, {}, {})


def test_passwords_with_special_characters_reach_the_broker() -> None:
    """A URL-quoted password is unquoted once, and shown nowhere."""
    conf = cfg.ConfigOpts()
    transports.register_options(conf)
    conf([], project="test")
    url = "rabbit://us%40er:p%40ss%2Fw%3Ard%25@one:1111,us%40er:p%40ss%2Fw%3Ard%25@[::1]:2222/vh%2F1"
    driver = transports.get_transport(conf, url)._driver
    hosts = driver.link_settings.hosts
    assert [(host.hostname, host.port) for host in hosts] == [("one", 1111), ("::1", 2222)]
    assert {(host.username, host.password) for host in hosts} == {("us@er", "p@ss/w:rd%")}
    assert driver.link_settings.virtual_host == "vh/1"
    assert "p@ss" not in repr(driver.link_settings)


def test_tls_verifies_by_default() -> None:
    """``ssl = true`` alone checks certificate and host name (LP#2150316), in our connections and the library's."""
    conf = cfg.ConfigOpts()
    transports.register_options(conf)
    conf([], project="test")
    conf.set_override("ssl", True, group="oslo_messaging_rabbit")
    tls = transports.get_transport(conf, "rabbit://u:p@broker:5671/")._driver.link_settings.tls
    options = tls.for_host("broker")
    assert options["server_hostname"] == "broker"
    assert options["cert_reqs"].name == "CERT_REQUIRED"
    assert conf.oslo_messaging_rabbit.ssl_ca_file
