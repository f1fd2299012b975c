"""The border of trust: permissions as documented, TLS that verifies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import oslo_messaging
import pytest

from nova_sched.errors import BusUnavailable
from nova_sched.rpc import transport as transports
from nova_sched.rpc.factory import ensure_reachable
from nova_sched.rpcapi import SchedulerAPI
from nova_sched.testing.servers import RabbitServer, make_tls_files
from nova_sched.testing.servers.tls import TlsFiles
from tests.functional.behaviour.cloud import Request
from tests.integration.e2e.deployment import ROOT, Deployment, until
from tests.integration.e2e.desk import Desk
from tests.integration.e2e.test_stock_clients import stock_conf

PASSWORD = "a-p@ss/word"


def documented() -> dict[str, tuple[str, str, str]]:
    """User to (configure, write, read), out of the table in ``doc/source/security.rst``."""
    page = (ROOT / "doc" / "source" / "security.rst").read_text(encoding="utf-8")
    rows = re.findall(r"\* - ``(\w+)``\n" + 3 * r"\s+- ``(\S+)``\n", page)
    return {user: (configure, write, read) for user, configure, write, read in rows}


def test_the_documented_permissions_are_enough(rabbit: RabbitServer) -> None:
    """Daemon, agent, API client and notification reader, each as a user with just what the page says."""
    users = documented()
    assert set(users) == {"nova_sched", "nova_compute", "nova_api", "telemetry"}
    with rabbit.vhost() as vhost:
        urls = {}
        for user, permissions in users.items():
            name = f"{user}_{vhost}"
            rabbit.add_user(name, PASSWORD)
            rabbit.set_permissions(name, vhost, *permissions)
            urls[user] = rabbit.transport_url(vhost, name, PASSWORD)
        with Deployment(urls["nova_api"]) as deployment:
            deployment.sync()
            served = {"DEFAULT": {"transport_url": urls["nova_sched"]}}
            daemon = deployment.daemon(config=deployment.write("daemon.conf", served))
            hosts = {"DEFAULT": {"transport_url": urls["nova_compute"], "host": "node-1"}}
            deployment.start("agent", "nova-sched-compute", deployment.write("agent.conf", hosts))
            until(lambda: deployment.hosts(), "the agent has reported")
            built, refused = Request(metadata={"fail_attempts": "1"}), Request(memory_mb=10**6)
            fine = Request()
            for request in (built, refused, fine):
                deployment.api.run_instance(
                    request.context, request.spec, "pass", [], None, True, request.filter_properties, False
                )
            deployment.api.run_instance({}, [], "pass", [], None, True, {}, False)  # type: ignore[arg-type]
            wanted = {fine.uuids[0]: "active", refused.uuids[0]: "error", built.uuids[0]: "error"}

            def is_over() -> bool:
                return {uuid: row["vm_state"] for uuid, row in deployment.instances().items()} == wanted

            until(is_over, lambda: f"{deployment.instances()}\n{daemon.log_tail()}")
            until(
                lambda: rabbit.queues(vhost).get("scheduler.dead_letter", {}).get("messages"),
                "a dead letter is kept",
            )
            with Desk(rabbit.port, vhost, f"telemetry_{vhost}", PASSWORD) as desk:
                desk.listen(["notifications.error"])
                assert {one.name for one in desk.take(1)} == {"scheduler.run_instance"}
            for process in deployment.processes.values():
                assert "ACCESS_REFUSED" not in deployment.log(process)
                assert "Traceback" not in deployment.log(process)


def test_a_client_may_not_read_what_is_not_its_own(rabbit: RabbitServer) -> None:
    """The API's user can read neither the topic nor the builds nor the dead letters."""
    import amqp

    with rabbit.vhost() as vhost:
        name = f"api_{vhost}"
        rabbit.add_user(name, PASSWORD)
        rabbit.set_permissions(name, vhost, *documented()["nova_api"])
        with Desk(rabbit.port, vhost) as desk:
            for queue in ("scheduler", "compute.node-1", "scheduler.dead_letter", "notifications.info"):
                desk.queue(queue)
                with Desk(rabbit.port, vhost, name, PASSWORD) as intruder, pytest.raises(amqp.AccessRefused):
                    intruder.listen([queue])


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """An authority and a certificate for ``localhost``."""
    return make_tls_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls_rabbit(tls_files: TlsFiles) -> Iterator[RabbitServer]:
    """A broker that also listens with TLS."""
    with RabbitServer(tls=tls_files) as server:
        yield server


def tls_options(ca: Path | None, **delivery: str) -> dict[str, dict[str, object]]:
    """``ssl`` on, with that authority."""
    rabbit: dict[str, object] = {"ssl": "true"} if ca is None else {"ssl": "true", "ssl_ca_file": ca}
    return {"oslo_messaging_rabbit": rabbit, "delivery": dict(delivery)}


def test_tls_without_an_authority_is_refused_at_start(tls_rabbit: RabbitServer) -> None:
    """Exit status 2 and one line with option and remedy; with the option's leave the system's authorities decide."""
    with Deployment(tls_rabbit.tls_transport_url(), options=tls_options(None)) as deployment:
        answer = deployment.run("nova-sched-scheduler")
        assert answer.returncode == 2
        (line,) = answer.stderr.splitlines()
        assert "ssl_ca_file" in line
        assert "tls_system_authorities" in line
        path = deployment.write("allowed.conf", tls_options(None, tls_system_authorities="true"))
        answer = deployment.run("nova-sched", "select", "--timeout", "5", config=path)
        assert answer.returncode == 3, "our authority is none of the system's"
        assert "certificate verify failed" in answer.stderr


def test_tls_serves_and_verifies_the_host_name(tls_rabbit: RabbitServer, tls_files: TlsFiles) -> None:
    """By the name in the certificate all works; by another name or with another authority nobody connects."""
    vhost = tls_rabbit.create_vhost()
    right = tls_rabbit.tls_transport_url(vhost, host="localhost")
    wrong = tls_rabbit.tls_transport_url(vhost, host="127.0.0.1")
    with Deployment(right, options=tls_options(tls_files.ca)) as deployment:
        deployment.sync()
        deployment.daemon()
        assert deployment.api.ping({}, "x")["arg"] == "x"
        conf = stock_conf(True)
        for name, value in (("ssl", True), ("ssl_ca_file", str(tls_files.ca))):
            conf.set_override(name, value, group="oslo_messaging_rabbit")
        ensure_reachable(transports.get_transport(conf, right))
        with pytest.raises(BusUnavailable, match="certificate"):
            ensure_reachable(transports.get_transport(conf, wrong))
        transport = transports.get_transport(conf, wrong)
        with pytest.raises((BusUnavailable, oslo_messaging.MessagingException)):
            SchedulerAPI(transport, retry=0).delete_instance({}, "5a6e0000-0000-4000-8000-000000000001")
        transport.cleanup()
