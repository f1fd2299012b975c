"""The private servers themselves: isolated, repairable, durable and gone afterwards."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import kombu
import psutil
import pytest

from nova_sched.testing.servers import (
    MariaDbServer,
    MissingServer,
    PostgresServer,
    RabbitServer,
    ServerFailed,
    SqlServer,
    free_port,
    make_tls_files,
)
from nova_sched.testing.servers.process import find_program


def amqp_connection(transport_url: str) -> kombu.Connection:
    return kombu.Connection(transport_url.replace("rabbit://", "amqp://", 1))


def publish(transport_url: str, queue: str, count: int, queue_type: str = "classic") -> None:
    with amqp_connection(transport_url) as connection, connection.channel() as channel:
        kombu.Queue(
            queue, durable=True, queue_arguments={"x-queue-type": queue_type}, channel=channel
        ).declare()
        producer = kombu.Producer(channel)
        for number in range(count):
            producer.publish({"number": number}, routing_key=queue, delivery_mode=2)


def wait_for_ready(rabbit: RabbitServer, vhost: str, queue: str, count: int) -> None:
    deadline = time.monotonic() + 5
    while rabbit.queues(vhost)[queue]["ready"] != count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert rabbit.queues(vhost)[queue]["ready"] == count


def test_virtual_hosts_are_isolated(rabbit: RabbitServer) -> None:
    """A queue of one virtual host is not seen in another, and goes with its own."""
    with rabbit.vhost() as one, rabbit.vhost() as other:
        publish(rabbit.transport_url(one), "work", 3)
        wait_for_ready(rabbit, one, "work", 3)
        assert rabbit.queues(other) == {}
    assert f'"{one}"' not in rabbit.eval("rabbit_vhost:list_names()")


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_queue_counts_are_exact(
    rabbit: RabbitServer, rabbit_vhost: str, transport_url: str, queue_type: str
) -> None:
    """Ready and unacknowledged messages are told apart for both kinds of queue, and purging leaves none ready."""
    publish(transport_url, "work", 5, queue_type)
    wait_for_ready(rabbit, rabbit_vhost, "work", 5)
    with amqp_connection(transport_url) as connection, connection.channel() as channel:
        assert kombu.Queue("work", channel=channel).get(no_ack=False) is not None
        wait_for_ready(rabbit, rabbit_vhost, "work", 4)
        row = rabbit.queues(rabbit_vhost)["work"]
        assert (row["messages"], row["unacknowledged"], row["type"], row["durable"]) == (
            5,
            1,
            queue_type,
            True,
        )
        rabbit.purge(rabbit_vhost, "work")
        assert rabbit.queues(rabbit_vhost)["work"]["ready"] == 0
    rabbit.delete_queue(rabbit_vhost, "work")
    assert rabbit.queues(rabbit_vhost) == {}


def test_exchanges_tell_their_durability(rabbit: RabbitServer, rabbit_vhost: str, transport_url: str) -> None:
    """What the start of the service compares with its options can be read from the broker."""
    with amqp_connection(transport_url) as connection, connection.channel() as channel:
        kombu.Exchange("nova", type="topic", durable=False, channel=channel).declare()
    assert rabbit.exchanges(rabbit_vhost)["nova"] == {"type": "topic", "durable": False}


def test_closed_connections_are_noticed_by_the_client(
    rabbit: RabbitServer, rabbit_vhost: str, transport_url: str
) -> None:
    """Closing and dropping hit the connections of the given virtual host only."""
    with rabbit.vhost() as other, amqp_connection(rabbit.transport_url(other)) as bystander:
        bystander.connect()
        for cut in (rabbit.close_connections, rabbit.drop_connections):
            with amqp_connection(transport_url) as connection:
                connection.connect()
                assert rabbit.connection_count(rabbit_vhost) == 1
                assert cut(rabbit_vhost) == 1
                with pytest.raises(connection.connection_errors):
                    connection.drain_events(timeout=5)
        assert rabbit.connection_count(other) == 1


def test_permissions_bind(rabbit: RabbitServer, rabbit_vhost: str) -> None:
    """A user with a permission set is refused what the set does not name; odd characters in passwords survive the URL."""
    rabbit.add_user("limited", 'p@ss/"wörd%')
    rabbit.set_permissions("limited", rabbit_vhost, "^allowed", ".*", ".*")
    with amqp_connection(rabbit.transport_url(rabbit_vhost, "limited", 'p@ss/"wörd%')) as connection:
        kombu.Queue("allowed.one", channel=connection.channel()).declare()
        with pytest.raises(connection.channel_errors, match="ACCESS_REFUSED"):
            kombu.Queue("other", channel=connection.channel()).declare()


def test_blocked_broker_holds_publishers(rabbit: RabbitServer, rabbit_vhost: str, transport_url: str) -> None:
    """Nothing published under the memory alarm reaches the queue before it is cleared."""
    publish(transport_url, "work", 0)
    with amqp_connection(transport_url) as connection, connection.channel() as channel:
        with rabbit.blocked():
            kombu.Producer(channel).publish({}, routing_key="work")
            time.sleep(0.3)
            assert rabbit.queues(rabbit_vhost)["work"]["messages"] == 0
        wait_for_ready(rabbit, rabbit_vhost, "work", 1)


def test_persistent_messages_survive_broker_stop_and_kill(
    rabbit: RabbitServer, rabbit_vhost: str, transport_url: str
) -> None:
    """Stopping the broker inside its node and killing the node keep durable queues; `repair` brings both back."""
    publish(transport_url, "work", 2)
    wait_for_ready(rabbit, rabbit_vhost, "work", 2)
    rabbit.nodes[0].stop_app()
    with pytest.raises(OSError), amqp_connection(transport_url) as connection:
        connection.connect()
    rabbit.repair()
    assert rabbit.queues(rabbit_vhost)["work"]["ready"] == 2
    rabbit.kill()
    assert not rabbit.nodes[0].running
    rabbit.repair()
    assert rabbit.queues(rabbit_vhost)["work"]["ready"] == 2


def test_tls_listener_shows_its_certificate(tmp_path: Path) -> None:
    """A client that knows the authority and the right name gets in; with the wrong name it does not."""
    with RabbitServer(tls=make_tls_files(tmp_path)) as rabbit:
        options = {
            "ca_certs": str(tmp_path / "ca.pem"),
            "cert_reqs": ssl.CERT_REQUIRED,
        }
        for host, name, refused in (("localhost", "localhost", False), ("127.0.0.1", "127.0.0.1", True)):
            url = rabbit.tls_transport_url(host=host).replace("rabbit://", "amqp://", 1)
            connection = kombu.Connection(url, ssl={**options, "server_hostname": name}, connect_timeout=10)
            with pytest.raises(ssl.SSLCertVerificationError) if refused else nullcontext(), connection:
                connection.connect()
                assert connection.connected


def test_wrong_expression_is_an_error(rabbit: RabbitServer) -> None:
    """A mistake in an administration call is told, not swallowed."""
    with pytest.raises(ServerFailed, match="no_such_module"):
        rabbit.eval("no_such_module:call()")


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_committed_rows_survive_restart_and_kill(request: pytest.FixtureRequest, kind: str) -> None:
    """Both servers keep what was committed through a stop and a `kill -9`."""
    server: SqlServer = request.getfixturevalue(kind)
    name = server.create_database()
    table = f"{name}.t" if kind == "mariadb" else "t_kept"
    server.execute(f"CREATE TABLE {table} (n integer)")
    for number, fault in enumerate((server.restart, server.kill), start=1):
        server.execute(f"INSERT INTO {table} VALUES ({number})")
        fault()
        server.start()
        assert server.execute(f"SELECT count(*) FROM {table}").strip() == str(number)
    server.execute(f"DROP TABLE {table}")
    server.drop_database(name)


def test_each_test_gets_an_empty_database(sql_url: str) -> None:
    """`sql_url` names an existing, empty database (for SQLite: a file still to be made)."""
    if sql_url.startswith("sqlite"):
        assert not Path(sql_url.removeprefix("sqlite:///")).exists()
        return
    import sqlalchemy

    engine = sqlalchemy.create_engine(sql_url)
    assert sqlalchemy.inspect(engine).get_table_names() == []
    engine.dispose()


@pytest.mark.parametrize("server_class", [PostgresServer, MariaDbServer])
def test_nothing_is_left_behind(server_class: type[SqlServer]) -> None:
    """Closing a server, even a killed one, removes processes, folder and port."""
    with server_class() as server:
        folder = server.folder
        assert folder.exists()
        server.kill()
    assert not folder.exists()
    assert processes_in(folder) == []


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_test_run_leaves_nothing_behind(sign: signal.Signals) -> None:
    """When the run that started a server dies without a word, the server and its folder go too."""
    program = (
        "import time\n"
        "from nova_sched.testing.servers import PostgresServer\n"
        "server = PostgresServer()\n"
        "server.start()\n"
        "print(server.folder, flush=True)\n"
        "time.sleep(60)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=env) as run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        assert folder.exists()
        assert processes_in(folder)
        run.send_signal(sign)
    deadline = time.monotonic() + 15
    while (folder.exists() or processes_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not folder.exists()
    assert processes_in(folder) == []


def test_closing_does_not_wait_for_forked_children() -> None:
    """A child forked while a server ran holds copies of our pipes; closing goes on all the same."""
    with PostgresServer():
        child = os.fork()
        if child == 0:
            signal.pause()
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[0] == child


def test_missing_server_names_its_package() -> None:
    """A program that is nowhere is an error that says what to install."""
    with pytest.raises(
        MissingServer, match=r"no-such-server is not installed; install the package some-package"
    ):
        find_program("no-such-server", "some-package")


def test_install_script_is_done_when_all_is_there() -> None:
    """Where these tests can run, installing again says and does nothing."""
    script = Path(__file__).parents[2] / "tools/install-servers.sh"
    done = subprocess.run([str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_free_ports_differ() -> None:
    """Ports are handed out once, and below the range the kernel uses for clients."""
    ports = {free_port() for _ in range(50)}
    assert len(ports) == 50
    assert max(ports) < 32768


def processes_in(folder: Path) -> list[str]:
    """Command lines of living processes that name the folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(folder) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(line)
    return found
