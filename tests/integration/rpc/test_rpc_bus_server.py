"""The late-acknowledging server on a real broker: nothing is lost, nothing hangs, whatever breaks."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import Any

import amqp
import oslo_messaging
import pytest

from nova_sched.errors import BusUnavailable, NoValidHost, QueueMismatch, StoreUnavailable
from nova_sched.rpc import Target
from nova_sched.rpc import transport as transports
from nova_sched.rpc.bus.crash import POINTS
from nova_sched.rpc.bus.envelope import encode_message
from nova_sched.rpcapi import SchedulerAPI
from nova_sched.settings import DeliverySettings
from tests.integration.rpc.conftest import Bus, Scheduler, make_conf, until


def cast(number: Any, **extra: Any) -> bytes:
    """A run_instance as it lies in the queue."""
    message = {
        "method": "run_instance",
        "version": "3.0",
        "args": {"request_spec": number},
        "_unique_id": f"u{number}",
    }
    return encode_message({**message, **extra})


def stock_client(bus: Bus, **options: Any) -> Any:
    """oslo.messaging's own client on a transport of its own."""
    conf = make_conf(**options)
    return oslo_messaging.get_rpc_client(
        oslo_messaging.get_rpc_transport(conf, bus.url),
        Target(topic="scheduler", version="3.0"),
        timeout=10,
        retry=1,
    )


def test_a_stock_client_calls_and_casts(bus: Bus) -> None:
    """Results, null results, failures and casts, with oslo.messaging's own client; queues end empty."""
    bus.server()
    client = stock_client(bus)
    assert (
        client.call({"a": 1}, "select_destinations", request_spec=1, filter_properties={})[0]["host"] == "h1"
    )
    assert client.call({}, "nothing") is None
    with pytest.raises(oslo_messaging.RemoteError) as refused:
        client.call({}, "select_destinations", request_spec="full", filter_properties={})
    assert refused.value.exc_type == "NoValidHost"
    with pytest.raises(oslo_messaging.RemoteError, match="NoSuchMethod"):
        client.call({}, "_submit", what=1)
    for number in range(100):
        client.cast({}, "run_instance", request_spec=number)
    until(lambda: len(bus.scheduler.done) == 102)
    until(lambda: bus.depth() == 0)
    client.transport.cleanup()


def test_our_client_raises_our_errors(bus: Bus) -> None:
    """NoValidHost is NoValidHost at both ends; a topic nobody listens on is said at once."""
    api = SchedulerAPI(bus.transport, timeout_seconds=5)
    with pytest.raises(BusUnavailable, match="nobody has listened"):
        api.run_instance({}, {}, None, [], None, True, {})
    bus.server()
    with pytest.raises(NoValidHost, match="no host has room"):
        api.select_destinations({}, "full", {})  # type: ignore[arg-type]


def test_a_reply_is_two_messages_and_a_null_one(bus: Bus) -> None:
    """As recorded: the result first, ``ending`` alone in a second message; a null result is one message."""
    bus.server()
    with bus.raw() as connection:
        channel = connection.channel()
        channel.queue_declare("reply_x")
        got: list[dict[str, Any]] = []
        channel.basic_consume(
            "reply_x",
            no_ack=True,
            callback=lambda m: got.append(json.loads(json.loads(m.body)["oslo.message"])),
        )
        for method, arguments in (
            ("select_destinations", {"request_spec": 1, "filter_properties": {}}),
            ("select_destinations", {"request_spec": "full", "filter_properties": {}}),
            ("nothing", {}),
        ):
            bus.send_raw(
                encode_message(
                    {
                        "method": method,
                        "version": "3.0",
                        "args": arguments,
                        "_msg_id": "m",
                        "_reply_q": "reply_x",
                    }
                )
            )
        while len(got) < 5:
            connection.drain_events(timeout=5)
    keys = [set(message) - {"_unique_id"} for message in got]
    assert keys == [{"_msg_id", "result", "failure"}, {"_msg_id", "result", "failure", "ending"}] * 2 + [
        {"_msg_id", "result", "failure", "ending"}
    ]
    failure = json.loads(got[2]["failure"])
    assert (failure["module"], failure["class"], failure["kwargs"]) == (
        "nova.exception", "NoValidHost", {"reason": "no host has room", "code": 500},
    )  # fmt: skip
    assert len({message["_unique_id"] for message in got}) == 5


def test_callers_that_are_gone_do_not_hold_others_up(bus: Bus) -> None:
    """LP#1460652: thirty answers without a queue cost the living caller nothing."""
    bus.server()
    for number in range(30):
        bus.send_raw(
            encode_message(
                {
                    "method": "nothing", "version": "3.0", "args": {}, "_msg_id": "m", "_reply_q": f"gone_{number}",
                    "_unique_id": f"g{number}",
                }
            )
        )  # fmt: skip
    began = time.monotonic()
    assert SchedulerAPI(bus.transport, timeout_seconds=5).select_destinations({}, 1, {})  # type: ignore[arg-type]
    assert time.monotonic() - began < 3


def test_requests_that_wait_are_taken_together_up_to_the_bounds(bus: Bus) -> None:
    """Batches grow under load, never past batch_max; never more than prefetch is out (LP#1551667)."""
    bus.server(start=False).start()
    bus.scheduler.gate.clear()
    bus.send_raw(cast("first"))
    bus.scheduler.entered.wait(5)
    bus.send_raw(*(cast(number) for number in range(300)))
    until(lambda: bus.rabbit.queues(bus.vhost)["scheduler"]["unacknowledged"] == 200)
    bus.scheduler.gate.set()
    until(lambda: len(bus.scheduler.done) == 301)
    assert max(len(batch) for batch in bus.scheduler.batches) <= 100
    assert len(bus.scheduler.batches) < 30
    assert bus.scheduler.done == ["first", *range(300)]


POISON = {
    "rubbish": b"not json",
    "empty": b"",
    "invalid UTF-8": b'{"method": "\xff"}',
    "deep": b"[" * 100_000,
    "large": b'{"method": "' + b"x" * (5 << 20) + b'"}',
    "NaN": b'{"oslo.version": "2.0", "oslo.message": "{\\"method\\": \\"run_instance\\", \\"args\\": {\\"request_spec\\": NaN}}"}',
    "envelope": b'{"oslo.version": "3.0", "oslo.message": "{}"}',
    "unknown method": encode_message({"method": "no_such", "version": "3.0", "args": {}}),
    "unknown version": encode_message({"method": "run_instance", "version": "9.9", "args": {}}),
    "missing arguments": encode_message({"method": "run_instance", "version": "3.0", "args": {}}),
}


def test_poison_of_every_kind_becomes_one_dead_letter_each(bus: Bus) -> None:
    """Each with its reason, whole; the consumer goes on, the queue is empty, instances can be told (LP#894683)."""
    bus.server()
    bus.send_raw(*POISON.values(), cast("good"))
    until(lambda: "good" in bus.scheduler.done)
    until(lambda: bus.depth() == 0)
    assert bus.reader is not None
    letters = bus.reader.list()
    assert len(letters) == len(POISON)
    assert {letter.size_bytes for letter in letters} == {len(body) for body in POISON.values()}
    assert all(letter.reason and letter.routing_key == "scheduler" for letter in letters)
    assert len(bus.poisoned) == len(POISON)
    assert bus.depth("scheduler.dead_letter") == len(POISON)


def test_huge_numbers_do_not_stop_anything(bus: Bus) -> None:
    """An integer no machine word holds reaches the endpoint as a number or is refused; the next message is served."""
    bus.server()
    huge = '{"method": "run_instance", "version": "3.0", "args": {"request_spec": %s}}' % ("9" * 400)
    bus.send_raw(json.dumps({"oslo.version": "2.0", "oslo.message": huge}).encode(), cast("next"))
    until(lambda: "next" in bus.scheduler.done)
    until(lambda: bus.depth() == 0)


def test_a_suspected_message_is_worked_on_alone_and_given_up_in_the_end(bus: Bus) -> None:
    """Flagged redelivered: alone, counted; past max_deliveries a dead letter, and the fault is recorded (LP#1962348)."""
    bus.server(start=False)._intake.open()  # declares the queues, takes messages and dies with them
    bus.send_raw(*(cast(number) for number in range(3)))
    until(lambda: bus.rabbit.queues(bus.vhost)["scheduler"]["unacknowledged"] == 3)
    bus.counts.counts["u1"] = 5
    bus._servers[0]._intake.close(5)
    until(lambda: bus.rabbit.queues(bus.vhost)["scheduler"]["ready"] == 3)
    bus.server()
    until(lambda: len(bus.scheduler.done) == 2 and len(bus.poisoned) == 1)
    assert bus.scheduler.batches == [[0], [2]]
    assert bus.counts.counts == {"u0": 1, "u1": 6, "u2": 1}
    assert bus.poisoned[0][0]["args"] == {"request_spec": 1}
    assert "5 deliveries" in bus.poisoned[0][1]
    until(lambda: bus.depth() == 0)


def test_an_outage_holds_without_counting_or_losing(bus: Bus) -> None:
    """SQL away: the same messages are tried again, none is acknowledged, none counted; then all are done once."""
    bus.server()
    bus.scheduler.failure = StoreUnavailable("away")
    bus.send_raw(*(cast(number) for number in range(10)))
    until(lambda: bus._servers[0].held == "away")
    time.sleep(0.5)
    assert bus.depth() == 10
    bus.scheduler.failure = None
    until(lambda: len(bus.scheduler.done) == 10)
    until(lambda: bus.depth() == 0)
    assert not bus.counts.counts
    assert bus.reader is not None
    assert bus.reader.list() == []


def test_a_long_hold_gives_the_messages_back_before_the_broker_takes_them(bus: Bus) -> None:
    """RabbitMQ closes a channel after 30 minutes without an answer: they go round, above suspicion, and are done."""
    bus.server(give_back_after_seconds=0.5)
    bus.scheduler.failure = BusUnavailable("publishing blocked")
    bus.send_raw(*(cast(number) for number in range(5)))
    until(lambda: bus._servers[0].held is not None)
    until(lambda: bus._servers[0].held is None)
    bus.scheduler.failure = None
    until(lambda: sorted(bus.scheduler.done) == [0, 1, 2, 3, 4], 20)
    until(lambda: bus.depth() == 0)
    assert not bus.counts.counts


@pytest.mark.parametrize("how", ["close_connections", "drop_connections"])
def test_connections_closed_by_force_repeat_nothing(bus: Bus, how: str) -> None:
    """What is in hand adopts its redelivery; what was prefetched is done once; acknowledgements are not lost."""
    bus.server()
    bus.scheduler.gate.clear()
    bus.send_raw(*(cast(number) for number in range(50)))
    bus.scheduler.entered.wait(5)
    for _ in range(3):
        until(lambda: bus._servers[0].consuming and bus.depth() == 50)
        getattr(bus.rabbit, how)(bus.vhost)
        until(lambda: not bus._servers[0].consuming)
    until(lambda: bus._servers[0].consuming)
    bus.scheduler.gate.set()
    until(lambda: len(bus.scheduler.done) >= 50)
    until(lambda: bus.depth() == 0)
    assert sorted(bus.scheduler.done) == list(range(50))
    assert not bus.counts.counts


def test_a_deleted_queue_is_declared_again(bus: Bus) -> None:
    """The broker cancels the consumer: everything is declared and consumed anew (LP#1581148, om 0400cbf4)."""
    bus.server()
    bus.rabbit.delete_queue(bus.vhost, "scheduler")
    until(lambda: bus.rabbit.queues(bus.vhost).get("scheduler", {}).get("consumers") == 1)
    bus.send_raw(cast("after"))
    until(lambda: bus.scheduler.done == ["after"])


def test_the_watchdog_hears_a_deaf_consumer(bus: Bus) -> None:
    """Connected, queue not empty, nothing arriving: the consumer is opened again (celery#3201)."""
    server = bus.server()
    listener = server._intake.listener  # type: ignore[attr-defined]
    # Cancel behind the listener's back, in the broker only: what a lost basic.cancel looks like.
    bus.rabbit.eval(
        "[gen_server2:call(amqqueue:get_pid(Q),"
        ' {basic_cancel, element(1, C), element(2, C), undefined, <<"tests">>})'
        f' || Q <- rabbit_amqqueue:list(<<"{bus.vhost}">>), C <- rabbit_amqqueue:consumers(Q)]'
    )
    until(lambda: bus.rabbit.queues(bus.vhost)["scheduler"]["consumers"] == 0)
    bus.send_raw(cast("heard"))
    until(lambda: bus.scheduler.done == ["heard"])
    assert listener.reopened_by_watchdog == 1


def test_a_broker_restart_is_survived(bus: Bus) -> None:
    """Persistent messages in durable queues are served after a restart; the server resumes by itself."""
    server = bus.server()
    bus.scheduler.gate.clear()
    bus.send_raw(*(cast(number) for number in range(20)))
    bus.scheduler.entered.wait(5)
    bus.rabbit.nodes[0].stop_app()
    until(lambda: not server.consuming)
    bus.rabbit.nodes[0].start()
    bus.scheduler.gate.set()
    until(lambda: server.consuming, 20)
    until(lambda: bus.depth() == 0)
    assert sorted(bus.scheduler.done) == list(range(20))


def test_a_broker_that_is_away_at_the_start_is_waited_for(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    """One clear line, no crash; stop ends the waiting at once."""
    transport = transports.get_transport(make_conf(), "rabbit://guest:guest@127.0.0.1:1/")
    server = bus.server(start=False, transport=transport)
    starting = threading.Thread(target=server.start)
    starting.start()
    until(lambda: any("cannot be reached" in line for line in caplog.messages))
    time.sleep(0.5)
    assert server.stop(5)
    starting.join(5)
    assert not starting.is_alive()
    assert sum("cannot be reached" in line for line in caplog.messages) == 1


@pytest.mark.parametrize(
    "declare",
    [
        lambda channel: channel.exchange_declare("nova", "topic", durable=False, auto_delete=False),
        lambda channel: channel.queue_declare("scheduler", durable=False, auto_delete=False),
        lambda channel: channel.queue_declare(
            "scheduler", durable=True, auto_delete=False, arguments={"x-expires": 1000000}
        ),
    ],
    ids=["transient exchange", "transient queue", "other arguments"],
)
def test_other_properties_stop_the_start_with_one_line(bus: Bus, declare: Any) -> None:
    """Never a silent fall-back, never a retry for ever: QueueMismatch names the thing and the options."""
    with bus.raw() as connection:
        declare(connection.channel())
    server = bus.server(start=False)
    with pytest.raises(QueueMismatch, match="amqp_durable_queues") as refused:
        server.start()
    assert "\n" not in str(refused.value)


def test_a_quorum_queue_that_exists_as_classic_stops_the_start(bus: Bus) -> None:
    """406 is an answer, not an outage."""
    bus.server().stop()
    conf = make_conf(rabbit_quorum_queue=True)
    server = bus.server(start=False, transport=transports.get_transport(conf, bus.url))
    with pytest.raises(QueueMismatch, match="scheduler"):
        server.start()


def test_quorum_queues_work(bus: Bus) -> None:
    """By option: the same server, the same promises."""
    transport = transports.get_transport(make_conf(rabbit_quorum_queue=True), bus.url)
    bus.server(transport=transport)
    bus.send_raw(*(cast(number) for number in range(20)))
    until(lambda: len(bus.scheduler.done) == 20)
    assert bus.rabbit.queues(bus.vhost)["scheduler"]["type"] == "quorum"
    until(lambda: bus.depth() == 0)


def test_a_non_durable_stock_client_is_told(bus: Bus) -> None:
    """A client with transient queues against durable ones fails at once, with the broker's reason."""
    bus.server()
    client = stock_client(bus, amqp_durable_queues=False)
    with pytest.raises(oslo_messaging.MessageDeliveryFailure, match="inequivalent arg 'durable'"):
        client.cast({}, "run_instance", request_spec=1)
    client.transport.cleanup()


def test_stop_finishes_what_is_in_hand_and_gives_the_rest_back(bus: Bus) -> None:
    """SIGTERM in the middle: the batch in work is acknowledged, the prefetched rest is ready for others, unflagged."""
    server = bus.server(batch_max=5)
    bus.scheduler.gate.clear()
    bus.send_raw(*(cast(number) for number in range(50)))
    bus.scheduler.entered.wait(5)
    until(lambda: bus.depth() == 50)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    until(lambda: bus.rabbit.queues(bus.vhost)["scheduler"]["consumers"] == 0)
    bus.scheduler.gate.set()
    stopping.join(10)
    done = len(bus.scheduler.done)
    assert 1 <= done <= 5
    assert bus.rabbit.queues(bus.vhost)["scheduler"]["ready"] == 50 - done
    assert not [name for name in bus.rabbit.queues(bus.vhost) if "fanout" in name]


def test_stop_wakes_an_idle_server_at_once(bus: Bus) -> None:
    """No polling interval stands between SIGTERM and the end."""
    server = bus.server()
    began = time.monotonic()
    assert server.stop()
    assert time.monotonic() - began < 1.0
    assert server.stop()


def test_fanout_casts_reach_every_server(bus: Bus) -> None:
    """Each server has its own copy; a shared topic gives one copy in all (LP#1257293)."""
    other = Scheduler()
    bus.server()
    bus.server(other, host="s2")
    stock_client(bus).prepare(fanout=True).cast({}, "run_instance", request_spec="all")
    until(lambda: bus.scheduler.done == ["all"] and other.done == ["all"])
    stock_client(bus).cast({}, "run_instance", request_spec="one")
    stock_client(bus).prepare(server="s2").cast({}, "run_instance", request_spec="two")
    until(lambda: len(bus.scheduler.done) + len(other.done) == 4)
    assert "two" in other.done


WORKER = """
import sys
from tests.integration.rpc.conftest import Scheduler, make_conf
from nova_sched.rpc import Target, transport
from nova_sched.rpc.bus.server import BusServer

class Noted(Scheduler):
    def end(self):
        super().end()
        for what in self.batches[-1]:
            print(what, flush=True)

scheduler = Noted()
transport = transport.get_transport(make_conf(), sys.argv[1])
server = BusServer(transport, Target(topic="scheduler", server="s1"), [scheduler], on_batch_end=scheduler.end, batch_max=10)
server.start()
sys.stdin.read()
"""


def test_kill_9_loses_nothing(bus: Bus) -> None:
    """Workers killed in the middle of the load: what was acknowledged was done, the next worker does the rest."""
    bus.server().stop()
    bus.send_raw(*(cast(number) for number in range(1500)))
    seen: list[str] = []
    for stop_after in (200, 700, 10**6):
        worker = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", WORKER, bus.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert worker.stdout is not None
        assert worker.stdin is not None
        for line in worker.stdout:
            seen.append(line.strip())
            if len(seen) >= stop_after or len(set(seen)) == 1500:
                break
        if stop_after < 10**6:
            worker.kill()
            seen += [line.strip() for line in worker.stdout if line.strip().isdigit()]
        else:
            until(lambda: bus.depth() == 0)
            worker.kill()
        worker.stdout.close()
        worker.stdin.close()
        worker.wait()
    assert {int(line) for line in seen} == set(range(1500))
    assert len(seen) <= 1500 + 2 * 200  # at most what was prefetched is done again


def test_an_idle_server_costs_nearly_nothing(bus: Bus) -> None:
    """LP#1518430: no busy loop; a quiet second costs some milliseconds."""
    bus.server(delivery=DeliverySettings())
    began = time.process_time()
    time.sleep(2)
    assert time.process_time() - began < 0.1


def test_reports_give_way_to_builds(bus: Bus) -> None:
    """A second server waits while the first one's batch is in work, but not for ever."""
    builds = bus.server()
    reports = Scheduler()
    bus.server(reports, host="reports", give_way_to=builds, give_way_seconds=0.3)
    bus.scheduler.gate.clear()
    bus.send_raw(cast("build"))
    bus.scheduler.entered.wait(5)
    if not builds.busy:  # the reports' server took it: its endpoint has no gate
        assert reports.done == ["build"]
        return
    began = time.monotonic()
    stock_client(bus).prepare(server="reports").cast({}, "run_instance", request_spec="report")
    until(lambda: reports.done == ["report"])
    assert 0.25 < time.monotonic() - began < 5


def test_heartbeats_go_on_while_a_batch_is_held(bus: Bus) -> None:
    """LP#2035113: a batch longer than the heartbeat does not cost the connection."""
    transport = transports.get_transport(make_conf(heartbeat_timeout_threshold=1), bus.url)
    server = bus.server(transport=transport)
    bus.scheduler.gate.clear()
    bus.send_raw(cast(1))
    bus.scheduler.entered.wait(5)
    before = server._intake.listener._ledger._generation  # type: ignore[attr-defined]
    time.sleep(3)
    bus.scheduler.gate.set()
    until(lambda: bus.depth() == 0)
    assert server._intake.listener._ledger._generation == before  # type: ignore[attr-defined]


def test_an_idle_server_keeps_its_connection(bus: Bus) -> None:
    """The watchdog's questions are answered often enough for the broker to send no heartbeats; they are life signs."""
    transport = transports.get_transport(make_conf(heartbeat_timeout_threshold=1), bus.url)
    server = bus.server(transport=transport)
    before = server._intake.listener._ledger._generation  # type: ignore[attr-defined]
    time.sleep(4)
    assert server.consuming
    assert server._intake.listener._ledger._generation == before  # type: ignore[attr-defined]


def test_messages_of_the_recorded_topology_find_us(bus: Bus) -> None:
    """Exchanges, queues and bindings are those a Juno scheduler has, durable by default."""
    bus.server()
    queues = bus.rabbit.queues(bus.vhost)
    assert {"scheduler", "scheduler.s1"} <= set(queues)
    assert all(queues[name]["durable"] for name in ("scheduler", "scheduler.s1"))
    fanout = [name for name in queues if name.startswith("scheduler_fanout_")]
    assert len(fanout) == 1
    exchanges = bus.rabbit.exchanges(bus.vhost)
    assert exchanges["nova"] == {"type": "topic", "durable": True}
    assert exchanges["scheduler_fanout"] == {"type": "fanout", "durable": False}


def test_a_request_passes_the_crash_points_in_their_order(bus: Bus) -> None:
    """Where fault tests kill a worker: before decoding, after taking, before and after the acknowledgement."""
    passed: list[str] = []
    bus.server(crash_point=passed.append)
    bus.send_raw(cast(1))
    until(lambda: "after_ack" in passed)
    assert passed == ["before_decode", "after_take", "before_ack", "after_ack"]
    assert SchedulerAPI(bus.transport, timeout_seconds=5).select_destinations({}, {}, {})
    until(lambda: passed.count("after_ack") == 2)
    assert passed[4:] == ["before_decode", "after_take", "before_reply", "before_ack", "after_ack"]
    assert set(passed) <= set(POINTS)


def test_bad_credentials_are_said_in_one_line(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    """The broker's refusal reaches the log, the password does not."""
    url = bus.rabbit.transport_url(bus.vhost, password="wr@ng/secret")
    server = bus.server(start=False, transport=transports.get_transport(make_conf(), url))
    starting = threading.Thread(target=server.start)
    starting.start()
    until(lambda: any("ACCESS_REFUSED" in line or "AccessRefused" in line for line in caplog.messages))
    server.stop()
    starting.join(5)
    assert "wr@ng" not in caplog.text


def test_amqp_of_the_library_is_the_tested_one() -> None:
    """What is driven by hand here was tested with this series of py-amqp."""
    assert amqp.__version__.startswith("5.")
