"""kill -9: at named points and at random, under load. Nothing is lost, built twice or oversold."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.faults.harness import orders
from tests.faults.harness.cloud import Cloud, kill, until
from tests.faults.harness.sizes import PATIENCE, SIZES, chance

POINTS = (
    "before_decode", "after_take", "before_decide", "before_commit", "after_commit", "before_publish", "after_confirm",
    "after_sent", "before_ack", "after_ack",
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
    """Three workers of the daemon, one of them killed every few hundred requests, thousands of requests."""
    cloud = make_cloud(workers=3, agents=False, daemon=True).start()
    random = chance("random kills")
    killed = 0
    for _ in range(SIZES.random_kill_requests // 250):
        cloud.client.send(mixed(250, random))
        left = random.randint(50, 350)
        until(lambda left=left: cloud.depth("scheduler") < left, 60, "the load is worked off", 0.01)
        if pids := cloud.worker_pids():
            kill(random.choice(pids))
            killed += 1
    cloud.settle(90)
    cloud.check()
    assert killed >= SIZES.random_kill_requests // 300
    assert cloud.dead_letters() == 0, "a kill makes no message poison"
