"""What several scheduler processes do at once, for the race tests. Each racer is a process with its own connections."""

from __future__ import annotations

import multiprocessing
import random
import time
import traceback
from collections.abc import Callable
from typing import Any

from nova_sched.db.engine import Database
from nova_sched.db.expiry import Expiry, ExpiryLimits
from nova_sched.db.facts import SqlFactSource
from nova_sched.db.instances import InstanceDirectory
from nova_sched.db.outcomes import SqlOutcomeStore
from nova_sched.model.facts import Fact
from nova_sched.model.limits import Limits
from nova_sched.model.request import Amounts
from nova_sched.reports.apply import ReportSink
from nova_sched.service.ports import VerdictKind
from nova_sched.settings import DatabaseSettings
from tests.integration.db.worlds import event_of, failed, placed, record_of, request, uuid_of

# A server process imports everything once; racers are forked from it, free of this process's threads and connections.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


def race(url: str, racers: int, run: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What ``run(database, barrier, number, *arguments)`` returned in each of so many processes."""
    barrier = _FORKS.Barrier(racers)
    results: Any = _FORKS.Queue()
    processes = [
        _FORKS.Process(target=_start, args=(url, barrier, results, number, run, arguments), daemon=True)
        for number in range(racers)
    ]
    for process in processes:
        process.start()
    found = dict(results.get(timeout=120) for _ in processes)
    for process in processes:
        process.join(30)
    broken = [text for text in found.values() if isinstance(text, _Broken)]
    assert not broken, broken[0].text
    return [found[number] for number in range(racers)]


class _Broken:
    def __init__(self, text: str) -> None:
        self.text = text


def _start(
    url: str, barrier: Any, results: Any, number: int, run: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    database = Database(DatabaseSettings(connection=url, max_retries=30, retry_interval_seconds=0.01))
    try:
        results.put((number, run(database, barrier, number, *arguments)))
    except BaseException:
        results.put((number, _Broken(traceback.format_exc())))
        barrier.abort()
    finally:
        database.close()


def last_slot(database: Database, barrier: Any, number: int, rounds: int, tries: int) -> list[int]:
    """Each round all racers try to claim the one place of a host, many times; wins per round."""
    store = SqlOutcomeStore(database)
    wins = []
    for number_of_round in range(rounds):
        host = number_of_round + 1
        barrier.wait()
        won = 0
        for attempt in range(tries):
            asked = request(number_of_round * 10_000 + number * 1_000 + attempt)
            verdict = store.commit([placed(asked, host, limits=Limits(memory_mb=2048))])[0]
            assert verdict.kind in (VerdictKind.COMMITTED, VerdictKind.LOST)
            won += verdict.kind is VerdictKind.COMMITTED
        wins.append(won)
    return wins


def same_key(database: Database, barrier: Any, number: int, rounds: int) -> list[str]:
    """All racers hold the same message: each round, who placed it (or failed it)."""
    store = SqlOutcomeStore(database)
    kinds = []
    for number_of_round in range(rounds):
        asked = request(number_of_round)
        barrier.wait()
        outcome = failed(asked) if number_of_round % 2 else placed(asked, number + 1)
        kinds.append(str(store.commit([outcome], [record_of(asked)])[0].kind))
    return kinds


def spread_groups(database: Database, barrier: Any, number: int, groups: int, hosts: int) -> int:
    """Each racer places one member of every anti-affinity group, on a host it sees free of the group; lost tries."""
    store, facts = SqlOutcomeStore(database), SqlFactSource(database)
    lost = 0
    for index in range(groups):
        asked = request(index * 100 + number, group=f"g{index}")
        barrier.wait()
        while True:
            group = facts.load([asked], frozenset({Fact.GROUP}))[0].group
            assert group is not None
            host = next(host for host in range(1, hosts + 1) if f"h{host}" not in group.hosts)
            seen = {"group_uuid": group.uuid, "group_generation": group.generation}
            if store.commit([placed(asked, host, **seen)])[0].kind is VerdictKind.COMMITTED:
                break
            lost += 1
    return lost


def everything(database: Database, barrier: Any, number: int, seconds: float, hosts: int) -> int:
    """Claims in batches, reschedules, reports, updates, deletions and expiry, as they come; transactions done."""
    chance = random.Random(number)
    store, directory = SqlOutcomeStore(database), InstanceDirectory(database)
    sink = ReportSink(database, event_of, lambda host, uuid: None)
    expiry = Expiry(database, event_of)
    own: list[tuple[int, int, int]] = []
    done = seq = 0
    barrier.wait()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done += 1
        if done % 3 == 1:
            batch = []
            for _ in range(chance.randint(1, 16)):
                key = number * 1_000_000 + done * 100 + len(batch)
                host = chance.randint(1, hosts)
                asked = request(key, amounts=Amounts(1, chance.choice([512, 1024]), 1024))
                batch.append(
                    placed(asked, host, limits=Limits(memory_mb=32768), ttl_seconds=chance.choice([0, 300]))
                )
                own.append((key, 1, host))
            store.commit(batch, [record_of(outcome.request) for outcome in batch])
        elif own and done % 3 == 2:
            for _ in range(8):
                at = chance.randrange(len(own))
                key, attempt, host = own[at]
                act = chance.choice(["building", "active", "failed", "deleted", "reschedule", "delete"])
                if act == "reschedule":
                    host, attempt = chance.randint(1, hosts), attempt + 1
                    asked = request(key, attempt=attempt, amounts=Amounts(1, 512, 1024))
                    store.commit([placed(asked, host)])
                    own[at] = (key, attempt, host)
                elif act == "delete":
                    directory.delete_instance(uuid_of(key))
                else:
                    sink.update_instance(
                        uuid=uuid_of(key), attempt=attempt, host=f"h{host}", state=act, reason="x"
                    )
            sink.apply()
        else:
            for host in chance.sample(range(1, hosts + 1), 5):
                seq += 1
                listed = [uuid_of(key) for key, _, at in own if at == host and chance.random() < 0.5]
                node = {
                    "hypervisor_hostname": f"h{host}.lab",
                    "values": {"free_ram_mb": 32768},
                    "instances": listed,
                }
                sink.report_state(
                    {"host": f"h{host}", "epoch": 1, "seq": done * 1000 + number * 100 + seq}, [node]
                )
            sink.apply()
            expiry.run(ExpiryLimits(3600, 60))
    return done
