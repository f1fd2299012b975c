"""A nova.conf of Juno's time, with today's broker and database put in, starts the daemon and serves a stock client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import amqp
import oslo_messaging
import pytest
from oslo_config import cfg

from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.rpc.transport import register_options
from nova_sched.settings import DatabaseSettings

JUNO = Path(__file__).parents[2] / "golden" / "conf" / "juno_nova.conf"
CODE = "import sys; from nova_sched.cmd.scheduler import main; sys.exit(main())"


@pytest.fixture
def config(tmp_path, transport_url):
    """The golden file; only the addresses, credentials and folders of this machine are replaced."""
    broker = urlsplit(transport_url)
    mine = {
        "rabbit_host": broker.hostname,
        "rabbit_port": broker.port,
        "rabbit_userid": broker.username,
        "rabbit_password": broker.password,
        "rabbit_virtual_host": broker.path.removeprefix("/"),
        "logdir": tmp_path,
        "connection": f"sqlite:///{tmp_path}/sched.sqlite",
    }
    lines = []
    for line in JUNO.read_text().splitlines():
        name = line.partition("=")[0].strip()
        lines.append(f"{name} = {mine[name]}" if name in mine else line)
    path = tmp_path / "nova.conf"
    path.write_text("\n".join([*lines, "[health]", "enabled = false"]) + "\n")
    database = Database(DatabaseSettings(connection=str(mine["connection"])))
    schema.sync(database)
    database.close()
    return path


def test_juno_nova_conf_starts_the_daemon(config, transport_url):
    """ping over the bus answers, what has no effect was said, SIGTERM ends with 0."""
    with open(config.with_suffix(".out"), "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, "--config-file", str(config)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        assert _ping(transport_url) == {"service": "scheduler", "arg": "hello"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = "".join(path.read_text() for path in config.parent.glob("*.log"))
    said += config.with_suffix(".out").read_text()
    assert "rpc_conn_pool_size has no effect" in said
    assert "RetryFilter, AvailabilityZoneFilter, RamFilter" in said
    assert "NOVA_PASS" not in said


def _ping(transport_url: str) -> object:
    """A stock client, durable as this service is by default; the server may still be starting."""
    conf = cfg.ConfigOpts()
    register_options(conf)
    conf([], default_config_files=[])
    register_options(conf)
    transport = oslo_messaging.get_rpc_transport(conf, url=transport_url)
    target = oslo_messaging.Target(topic="scheduler", version="1.0", namespace="baseapi")
    client = oslo_messaging.get_rpc_client(transport, target, timeout=3)
    try:
        for _ in range(20):
            try:
                return client.call({}, "ping", arg="hello")
            except (oslo_messaging.MessagingTimeout, oslo_messaging.MessageUndeliverable):
                time.sleep(0.5)
        raise AssertionError("no answer to ping")
    finally:
        transport.cleanup()


def test_exchange_of_another_kind_stops_the_start_with_one_line(config, rabbit, rabbit_vhost):
    """A broker that a Juno deployment without durable queues uses: named, with the options to set, exit code 2."""
    with amqp.Connection(f"127.0.0.1:{rabbit.port}", virtual_host=rabbit_vhost) as connection:
        connection.channel().exchange_declare("nova", "topic", durable=False, auto_delete=False)
        ran = subprocess.run(
            [sys.executable, "-c", CODE, "--config-file", str(config)],
            capture_output=True,
            text=True,
            timeout=60,
            start_new_session=True,
            check=False,
        )
    assert ran.returncode == 2, ran.stderr
    said = "".join(path.read_text() for path in config.parent.glob("*.log")) + ran.stderr
    (line,) = [line for line in said.splitlines() if "cannot start: " in line]
    assert "exchange 'nova'" in line
    assert "amqp_durable_queues" in line
