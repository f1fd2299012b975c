"""Messages that nobody should send, messages that come twice, and computes that do not answer."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nova_sched.testing.servers import PostgresServer, RabbitServer
from tests.faults.harness import orders
from tests.faults.harness.checker import balanced
from tests.faults.harness.cloud import Cloud, fresh_database, kill, until
from tests.faults.harness.sizes import SIZES, chance


@pytest.fixture(scope="module")
def cloud(
    tmp_path_factory: pytest.TempPathFactory, rabbit: RabbitServer, postgres: PostgresServer
) -> Iterator[Cloud]:
    """One worker, so that what one message does to the next is seen; hosts without agents."""
    rabbit.repair()
    url = fresh_database(postgres)
    options = {
        "delivery.max_message_bytes": 4 * 1024 * 1024,
        "delivery.prefetch": 200,
        "delivery.batch_max": 100,
    }
    folder = tmp_path_factory.mktemp("messages")
    cloud = Cloud(folder, rabbit, url, workers=1, hosts=6, agents=False, daemon=True, options=options)
    try:
        yield cloud.start()
    finally:
        cloud.close()


def poison() -> dict[str, bytes]:
    """One of each kind that the contract names."""
    good = orders.run_instance(orders.fresh())[2]
    envelope = json.loads(good)
    inner = json.loads(envelope["oslo.message"])

    def wrapped(message: Any) -> bytes:
        text = message if isinstance(message, str) else json.dumps(message)
        return json.dumps({"oslo.version": "2.0", "oslo.message": text}).encode()

    spec = inner["args"]["request_spec"]
    huge = {**spec, "instance_type": {**spec["instance_type"], "memory_mb": 10**400}}
    return {
        "non-JSON": b"\x00\x01 not json",
        "empty": b"",
        "wrong envelope": json.dumps(
            {"oslo.version": "9.0", "oslo.message": envelope["oslo.message"]}
        ).encode(),
        "no message": json.dumps({"oslo.version": "2.0"}).encode(),
        "a list": b"[1, 2, 3]",
        "unknown method": wrapped({**inner, "method": "no_such_method", "_unique_id": uuid.uuid4().hex}),
        "private method": wrapped({**inner, "method": "_submit", "_unique_id": uuid.uuid4().hex}),
        "unknown version": wrapped({**inner, "version": "9.0", "_unique_id": uuid.uuid4().hex}),
        "missing arguments": wrapped({**inner, "args": {}, "_unique_id": uuid.uuid4().hex}),
        "10 MiB": wrapped({**inner, "padding": "x" * (10 << 20)}),
        "100,000 levels deep": b"[" * 100_000 + b"]" * 100_000,
        "100,000 levels deep inside": wrapped('{"args": ' + "[" * 100_000 + "]" * 100_000 + "}"),
        "NaN": good.replace(b'\\"memory_mb\\":64', b'\\"memory_mb\\":NaN'),
        "huge integers": wrapped(json.dumps({**inner, "args": {**inner["args"], "request_spec": huge}})),
        "invalid UTF-8": good.replace(b"lab.small", b"lab.\xff\xfe"),
        "a lone surrogate": good.replace(b"lab.small", b"lab.\\\\ud800"),
    }


def test_poison_of_every_kind_ends_once_and_takes_nobody_with_it(cloud: Cloud) -> None:
    """Each goes to the dead letters or ends its instance in ERROR; good requests around it are placed; no worker dies."""
    pids = cloud.worker_pids()
    letters = cloud.dead_letters()
    kinds = poison()
    good = []
    for body in kinds.values():
        good.append(orders.run_instance(orders.fresh()))
        cloud.client.send(good[-1:])
        cloud.client.send_bodies([body])
    cloud.settle()
    cloud.check()
    assert cloud.worker_pids() == pids, cloud.log_tail()
    states = dict(map(tuple, cloud.books.rows("SELECT uuid, vm_state FROM sched_instances")))
    assert {states[uuids[0]] for uuids, _, _ in good} == {"building"}
    assert 10 <= cloud.dead_letters() - letters <= len(kinds)


def test_fuzzed_messages_take_nobody_with_them(cloud: Cloud) -> None:
    """Bytes of good messages changed, cut and doubled at random: the worker lives and places what is good."""
    pids = cloud.worker_pids()
    random = chance("fuzz")
    end = time.monotonic() + SIZES.fuzz_seconds
    while time.monotonic() < end:
        bodies = []
        for _ in range(20):
            # What stands behind a garbled name is no secret any more, so it may turn up in a notification.
            good = orders.run_instance(orders.fresh())[2]
            body = bytearray(good.replace(orders.SECRET.encode(), b"not-a-secret"))
            for _ in range(random.randint(1, 8)):
                at = random.randrange(len(body))
                act = random.randrange(4)
                if act == 0:
                    body[at] = random.randrange(256)
                elif act == 1:
                    del body[at : at + random.randint(1, 40)]
                elif act == 2:
                    body[at:at] = body[at : at + random.randint(1, 40)]
                else:
                    body[at:at] = random.choice([b'"', b"{", b"[", b"\\", b"null", b"1e999", b"-1", b"\xf0"])
            bodies.append(bytes(body))
        cloud.client.send_bodies(bodies)
        cloud.client.send([orders.run_instance(orders.fresh())])
        until(lambda: cloud.depth("scheduler") < 100, 60, "the load is worked off")
    cloud.settle()
    assert cloud.worker_pids() == pids, cloud.log_tail()
    known = {row[0]: row[1] for row in cloud.books.rows("SELECT uuid, vm_state FROM sched_instances")}
    assert all(known[one] == "building" for one in cloud.history.order[-5:])
    for place, _ in cloud.books.texts_with(orders.SECRET):
        raise AssertionError(f"a secret is in {place}")


def test_the_same_message_twice_redelivered_and_after_a_restart_is_one_build(cloud: Cloud) -> None:
    """By its key, not by its id: a copy at once, a copy under another id, a copy to the next process."""
    uuids = orders.fresh(3)
    first = [orders.run_instance([one], unique_id=uuid.uuid4().hex) for one in uuids]
    cloud.client.send(first)
    cloud.client.send(first)
    cloud.client.send([orders.run_instance([one]) for one in uuids])
    cloud.settle()
    kill(cloud.worker_pids()[0])
    cloud.client.send(first)
    cloud.client.send([orders.run_instance([one]) for one in uuids])
    until(lambda: cloud.consumers() == 1, 60, "the next worker consumes")
    cloud.settle()
    cloud.check()
    casts = cloud.history.casts_by_key()
    for one in uuids:
        assert len({cast.host for cast in casts[(one, 1)]}) == 1
        rows = cloud.books.rows("SELECT count(*) FROM sched_claims WHERE instance_uuid = :uuid", uuid=one)
        assert rows[0][0] == 1


def test_a_hundred_instances_with_room_for_sixty(make_cloud: Callable[..., Cloud]) -> None:
    """Exactly 60 casts and 40 ERROR, one .start and one .end, launch indexes of the message's order."""
    cloud = make_cloud(workers=1, hosts=6, agents=False, host_options={"memory_mb": 1000}).start()
    uuids = orders.fresh(100)
    cloud.client.send([orders.run_instance(uuids, memory_mb=150)])
    cloud.settle()
    until(lambda: not balanced(cloud.history), 30, "the .end is seen")
    cloud.check()
    casts = cloud.history.casts_by_key()
    assert len(casts) == 60
    assert all(len(found) == 1 for found in casts.values())
    index = {one: at for at, one in enumerate(uuids)}
    assert all(cast.launch_index in (None, index[cast.uuid]) for found in casts.values() for cast in found)
    errors = cloud.history.errors_by_uuid()
    assert len([one for one in uuids if errors.get(one)]) == 40
    kinds = Counter(event.event_type for event in cloud.history.events if event.priority == "INFO")
    assert kinds["scheduler.run_instance.start"] == kinds["scheduler.run_instance.end"] == 1


def test_an_agent_that_dies_after_the_cast(make_cloud: Callable[..., Cloud]) -> None:
    """With the build in hand, or before it took the cast from its queue: ERROR by the clock, room given back."""
    limits = {"DEFAULT.service_down_time": 6, "delivery.claim_ttl_seconds": 10}
    cloud = make_cloud(workers=2, hosts=3, host_options={"build_seconds": 60.0}, options=limits).start()
    cloud.client.send([orders.run_instance(orders.fresh()) for _ in range(6)])
    started = "SELECT count(*) FROM sched_claims WHERE state IN ('building', 'held')"
    until(lambda: cloud.books.scalar(started) == 6, 30, "the agents build")
    assert cloud.fleet is not None
    kill(cloud.fleet.pid)
    cloud.fleet.wait()
    cloud.unread = ("compute.",)
    cloud.client.send([orders.run_instance(orders.fresh()) for _ in range(3)])
    unfinished = "SELECT count(*) FROM sched_instances WHERE vm_state <> 'error'"
    until(
        lambda: len(cloud.history.accepted) == 9 and cloud.books.scalar(unfinished) == 0,
        60,
        "every build of the dead agents ends in ERROR",
    )
    cloud.settle()
    until(lambda: len(cloud.history.errors_by_uuid()) == 9, 30, "the ERROR events are seen")
    cloud.check()
    assert cloud.books.scalar("SELECT sum(claimed_instances) FROM sched_hosts") == 0


def test_casts_to_computes_without_a_queue_go_to_the_next_host(make_cloud: Callable[..., Cloud]) -> None:
    """Two of three hosts have no queue: everything is built on the third; with none left, ERROR."""
    cloud = make_cloud(workers=2, hosts=3, agents=False, unheard=("h1", "h2")).start()
    cloud.client.send([orders.run_instance(orders.fresh(2)) for _ in range(20)])
    cloud.settle()
    cloud.check()
    hosts = {cast.host for cast in cloud.history.casts}
    assert hosts == {"h3"}
    assert cloud.books.scalar("SELECT count(*) FROM sched_instances WHERE vm_state = 'building'") == 40
    held = cloud.books.rows("SELECT h.host, h.claimed_instances FROM sched_hosts h ORDER BY h.host")
    assert [tuple(row) for row in held] == [("h1", 0), ("h2", 0), ("h3", 40)]
