"""Twenty secrets through every path: none is found outside of the casts to compute and the queues of whole requests."""

from __future__ import annotations

import io
import json
import os
import signal
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from urllib.parse import quote

import pytest
from oslo_config import cfg

from nova_sched.cmd import client, manage
from nova_sched.testing.servers import PostgresServer, RabbitServer, free_port
from tests.integration.e2e.deployment import Deployment, report, until
from tests.integration.e2e.desk import Desk
from tests.integration.security.canaries import (
    ATTESTATION,
    BROKER,
    EVENTS,
    KEYSTONE,
    OF_MESSAGES,
    SQL,
    body,
    canary,
    found_in,
    message,
)
from tests.integration.security.plugins import BREAKS

FAKE, REAL = "node-1", "node-2"
EVENT_QUEUES = ("notifications.info", "notifications.error")
TELL_TALE = "tests.integration.security.plugins.TellTale"


class Site:
    """A daemon and an agent at DEBUG, with every secret in place, and ears wherever something leaves."""

    def __init__(self, deployment: Deployment, desk: Desk, health_port: int) -> None:
        self.deployment, self.desk, self.health_port = deployment, desk, health_port
        self.daemon = deployment.daemon()
        self.agent = deployment.agent(REAL, memory_mb=65536)
        deployment.reports.report_state({}, *report(1, 65536, 1))
        until(lambda: len(deployment.hosts()) == 2, "both hosts are known")
        self.uuids: dict[str, str] = {}
        self.taken: list[Any] = []

    def send(self, path: str, change: Any = None, **properties: Any) -> str:
        """One message of that path; ``change`` edits it. The uuid of its instance."""
        self.uuids[path] = str(uuid.uuid4())
        content = message(self.uuids[path], **properties)
        if change is not None:
            change(content)
        self.desk.put(body(content), content_encoding="utf-8")
        return self.uuids[path]

    def ends(self, path: str, state: str) -> None:
        """Wait for the end of that path's instance."""

        def state_of() -> Any:
            return self.deployment.instances().get(self.uuids[path], {}).get("vm_state")

        until(
            lambda: state_of() == state,
            lambda: f"{path} is {state}, not {state_of()}: {self.daemon.log_tail()}",
        )

    def ask(self, main: Any, *words: str) -> str:
        """Everything a command line shows."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            main(["--config-file", str(self.deployment.config), *words], cfg.ConfigOpts())
        return f"{' '.join(words)}: {out.getvalue()}{err.getvalue()}"

    def get(self, page: str) -> str:
        """One page of the health port."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}{page}", timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refused:
            return str(refused.read().decode())


@pytest.fixture(scope="module")
def site(rabbit: RabbitServer, postgres: PostgresServer) -> Iterator[Site]:
    """See Site. Broker, database, attestation, identity and notification passwords are secrets 16 to 20."""
    with rabbit.vhost() as vhost, postgres.database() as sql_url:
        for user, number in (("svc", BROKER), ("events", EVENTS)):
            rabbit.add_user(user, canary(number))
            rabbit.set_permissions(user, vhost, ".*", ".*", ".*")
        port = free_port()
        options = {
            "DEFAULT": {
                "debug": "true",
                "service_down_time": 60,
                "scheduler_available_filters": f"nova.scheduler.filters.all_filters,{TELL_TALE}",
                "scheduler_default_filters": f"RetryFilter,ComputeFilter,RamFilter,{TELL_TALE}",
            },
            "health": {"enabled": "true", "port": port},
            "oslo_messaging_notifications": {
                "transport_url": rabbit.transport_url(vhost, "events", canary(EVENTS)),
                "driver": "messaging\ndriver = messagingv2\ndriver = log",
            },
            "trusted_computing": {"attestation_auth_blob": canary(ATTESTATION).replace("\n", "\n ")},
            "keystone_authtoken": {"admin_password": canary(KEYSTONE).replace("\n", "\n ")},
        }
        database = sql_url.replace("postgres@", f"postgres:{quote(canary(SQL), safe='')}@")
        url = rabbit.transport_url(vhost, "svc", canary(BROKER))
        # A percent sign in a configuration file is a percent sign; only a dollar starts a reference.
        with Deployment(url, database, options) as deployment, Desk(rabbit.port, vhost) as desk:
            deployment.sync()
            for queue in (*EVENT_QUEUES, f"compute.{FAKE}"):
                desk.queue(queue)
            desk.copy("scheduler_report", "reports-too")
            desk.queue("reply-to-canary", exchange=None)
            desk.listen([*EVENT_QUEUES, f"compute.{FAKE}", "reports-too", "reply-to-canary"])
            yield Site(deployment, desk, port)


def _to(*ignored: str) -> Any:
    def change(content: dict[str, Any]) -> None:
        content["args"]["filter_properties"]["ignore_hosts"] = list(ignored)

    return change


def _call(content: dict[str, Any]) -> None:
    content["method"] = "select_destinations"
    content["_msg_id"], content["_reply_q"] = "m-1", "reply-to-canary"
    for name in {*content["args"]} - {"request_spec", "filter_properties"}:
        del content["args"][name]


def _exhausted(content: dict[str, Any]) -> None:
    _to(FAKE)(content)
    told = f"Traceback: login with {canary(1)!r} failed", f"admin_password={canary(1)}"
    content["args"]["filter_properties"]["retry"] = {"num_attempts": 3, "hosts": [], "exc": list(told)}


def _wrong(path: list[str], value: Any) -> Any:
    def change(content: dict[str, Any]) -> None:
        found: Any = content
        for step in path[:-1]:
            found = found[step]
        found[path[-1]] = value

    return change


@pytest.fixture(scope="module")
def done(site: Site) -> Site:
    """The site after every path was gone."""
    site.send("success", _to(REAL))
    site.send("built", _to(FAKE))
    site.send("reschedule", _to(FAKE), metadata={"fail_attempts": "1"})
    site.send("no host", memory_mb=10**6)
    site.send("exhausted", _exhausted)
    site.send("exception", display_name=BREAKS)
    site.send("call", lambda content: (_call(content), _to(REAL)(content)))
    site.send("refused call", _call, memory_mb=10**6)
    site.send("broken call", _call, display_name=BREAKS)
    site.send(
        "absurd",
        _wrong(["args", "request_spec", "instance_properties", "memory_mb"], {"password": canary(15)}),
    )
    site.send("absurd password", _wrong(["args", "admin_password"], {"deep": [canary(1)]}), memory_mb=-1)
    site.send("poison: nobody", _wrong(["args", "request_spec", "instance_uuids"], [None]))
    site.send("poison: version", _wrong(["version"], "9.0"))
    site.send("poison: method", _wrong(["method"], "no_such"))
    site.send("poison: arguments", _wrong(["args"], [canary(1), {"admin_password": canary(1)}]))
    site.desk.put(
        f'{{"oslo.version": "2.0", "oslo.message": "{{\\"admin_password\\": {json.dumps(canary(1))}',
        content_encoding="utf-8",
    )
    site.desk.put(canary(2), content_encoding="utf-8")
    site.desk.put(
        body({"method": "run_instance", "args": {"token": _deep(canary(13))}}), content_encoding="utf-8"
    )
    site.ends("success", "building")
    site.ends("built", "active")
    for path in ("reschedule", "no host", "exhausted", "exception", "absurd", "absurd password"):
        site.ends(path, "error")
    pids = [process.pid for process in site.deployment.workers(site.daemon)]
    for pid in (*pids, site.daemon.pid, site.agent.pid):
        os.kill(pid or 0, signal.SIGUSR2)
    for process, reports in ((site.daemon, len(pids) + 1), (site.agent, 1)):
        until(
            lambda: site.deployment.log(process).count("Guru Meditation") >= reports,  # noqa: B023 (asked at once)
            lambda: f"{reports} reports are written:\n{process.log_tail()}",  # noqa: B023
        )
    site.taken = site.desk.take(30) + site.desk.drain(1.0)
    return site


def _deep(value: Any) -> Any:
    for _ in range(150):
        value = [value]
    return value


def test_the_secrets_reach_the_compute_unharmed(done: Site) -> None:
    """What must arrive does, character by character; nothing else that a caller may read does."""
    (cast,) = [one.message for one in done.taken if one.queue == f"compute.{FAKE}"]
    text = json.dumps(cast, ensure_ascii=False)
    assert {int(number) for number in found_in(text)} >= {*OF_MESSAGES} - {7, 13}
    assert cast["args"]["admin_password"] == canary(1)
    assert cast["args"]["injected_files"][0][1] == canary(2)
    assert cast["args"]["instance"]["user_data"] == canary(3)
    assert cast["_context_auth_token"] == canary(4)
    assert cast["_context_key_of_a_later_release"] == {"whatever": canary(14)}


@pytest.mark.parametrize("queue", [*EVENT_QUEUES, "reports-too", "reply-to-canary"])
def test_no_secret_is_in_what_others_may_read_from_the_broker(done: Site, queue: str) -> None:
    """Notifications of both forms, agents' reports, answers to calls."""
    bodies = [one.body for one in done.taken if one.queue == queue]
    assert bodies
    assert found_in("\n".join(bodies)) == {}


def test_no_secret_is_in_a_log_or_a_report_of_a_process(done: Site) -> None:
    """Daemon and agent at DEBUG, the notification driver log, and the Guru Meditation Reports of all workers."""
    for process in done.deployment.processes.values():
        log = done.deployment.log(process)
        assert log
        assert found_in(log) == {}
    assert "debug = True" in done.deployment.log(done.daemon), (
        "the reports tell the configuration, debug is on"
    )


def test_no_secret_is_in_sql(done: Site) -> None:
    """Every value of every table, read as text."""
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    rows = 0
    with done.deployment.database.engine.connect() as connection:
        for (table,) in connection.exec_driver_sql(tables).all():
            for row in connection.exec_driver_sql(f"SELECT * FROM {table}").all():
                rows += 1
                assert found_in(" ".join(str(value) for value in row)) == {}, table
    assert rows > 50


def test_no_secret_is_on_the_health_port(done: Site) -> None:
    """Metrics, probes, the page and its data."""
    for page in ("/metrics", "/livez", "/readyz", "/", "/data"):
        shown = done.get(page)
        assert shown
        assert found_in(shown) == {}


def test_no_secret_is_shown_by_a_command(done: Site) -> None:
    """Dead letters, decision records, instances, claims, explanations, the export, the checks."""
    letters = done.ask(manage.main, "dead-letter", "list", "-f", "json")
    ids = [letter["ID"] for letter in json.loads(letters.partition(": ")[2])]
    assert len(ids) >= 5
    shown = [letters, *(done.ask(manage.main, "dead-letter", "show", one) for one in ids)]
    assert any("admin_password" in one for one in shown), "a letter is shown with its keys"
    listed = done.ask(client.main, "decision", "list", "-f", "json")
    records = [str(record["ID"]) for record in json.loads(listed.partition(": ")[2])]
    checks = (["config", "check"], ["service", "list"], ["plugins", "list"])
    shown += [done.ask(manage.main, *words) for words in checks]
    looks = [
        *(["decision", "show", record, "-f", "json"] for record in records),
        *(["instance", "show", one, "-f", "json"] for one in done.uuids.values()),
        ["explain", "--instance", done.uuids["no host"], "-f", "json"],
        *(["claim", "list"], ["host", "list"], ["instance", "list"], ["export"]),
    ]
    shown += [listed, *(done.ask(client.main, *words) for words in looks)]
    for one in shown:
        assert found_in(one) == {}
        assert "Traceback" not in one


def test_a_command_that_cannot_connect_names_no_password(done: Site) -> None:
    """The database and the broker away: one line each, without their URLs' secrets."""
    away = {
        "database": {"connection": f"postgresql+psycopg://u:{quote(canary(SQL), safe='')}@127.0.0.1:1/x"},
        "DEFAULT": {"transport_url": f"rabbit://u:{quote(canary(BROKER), safe='')}@127.0.0.1:1/"},
    }
    path = done.deployment.write("away.conf", away)
    for program, words in (
        ("nova-sched-manage", ["service", "list"]),
        ("nova-sched", ["select", "--timeout", "2"]),
    ):
        answer = done.deployment.run(program, *words, config=path)
        assert answer.returncode == 3
        assert found_in(answer.stdout + answer.stderr) == {}
        assert len(answer.stderr.splitlines()) == 1, answer.stderr
