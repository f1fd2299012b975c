"""kill -9: at named points and at random, under load. Nothing is lost, built twice or oversold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tests.faults.harness import orders
from tests.faults.harness.cloud import Cloud, kill, until
from tests.faults.harness.sizes import PATIENCE, SIZES, chance

POINTS = (
    "before_decode", "after_take", "before_prior", "before_decide", "before_commit", "after_commit", "before_publish",
    "after_publish", "after_confirm", "after_sent", "before_ack", "after_ack",
)  # fmt: skip


def mixed(amount: int, random: object) -> list[orders.Body]:
    """Requests of one and of three instances; some can be placed nowhere."""
    made = []
    for _ in range(amount):
        draw = random.random()  # type: ignore[attr-defined]
        if draw < 0.1:
            made.append(orders.run_instance(orders.fresh(), memory_mb=10_000_000))
        else:
            made.append(orders.run_instance(orders.fresh(3 if draw < 0.2 else 1)))
    return made


def test_a_worker_killed_at_any_point_loses_nothing(make_cloud: Callable[..., Cloud]) -> None:
    """Workers kill themselves at each named point again and again while requests keep coming."""
    cloud = make_cloud(workers=3)
    random = chance("points")
    plan = [f"{point} {random.randint(1, 4)}" for point in POINTS for _ in range(SIZES.kills_per_point)]
    random.shuffle(plan)
    cloud.plan.write_text("\n".join(plan) + "\n")
    done = cloud.plan.with_name("crash.plan.done")
    cloud.start()
    deadline = time.monotonic() + 120 * PATIENCE
    while not done.exists() or len(done.read_text().splitlines()) < len(plan):
        assert time.monotonic() < deadline, f"{done.exists() and done.read_text()}\n{cloud.log_tail()}"
        cloud.client.send(mixed(20, random))
        until(lambda: cloud.depth("scheduler") < 40, 60, "the load is worked off")
    cloud.settle()
    verdict = cloud.check()
    assert len(done.read_text().splitlines()) == len(plan)
    assert verdict.counts["casts"] > 0


def test_workers_killed_at_random_lose_nothing(make_cloud: Callable[..., Cloud]) -> None:
    """Three workers, one of them killed every now and then, thousands of requests."""
    cloud = make_cloud(workers=3, agents=False, options={"delivery.prefetch": 100, "delivery.batch_max": 50}).start()
    random = chance("random kills")
    stopping = threading.Event()
    killed = 0

    def reap() -> None:
        nonlocal killed
        while not stopping.wait(random.uniform(0.3, 1.2)):
            if pids := cloud.worker_pids():
                kill(random.choice(pids))
                killed += 1

    reaper = threading.Thread(target=reap)
    reaper.start()
    try:
        for _ in range(SIZES.random_kill_requests // 100):
            cloud.client.send(mixed(100, random))
            until(lambda: cloud.depth("scheduler") < 1000, 60, "the load is worked off")
    finally:
        stopping.set()
        reaper.join()
    cloud.settle(90)
    cloud.check()
    assert killed >= 5
