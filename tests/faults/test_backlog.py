"""A mountain of requests before the first worker starts: bounded memory, and the order of their arrival."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from tests.faults.harness import orders
from tests.faults.harness.cloud import Cloud, rss_mb, until
from tests.faults.harness.sizes import SIZES

GROWTH_MB = 64


def test_a_backlog_is_worked_off_in_order_within_bounded_memory(make_cloud: Callable[..., Cloud]) -> None:
    """Prefetch bounds what one worker holds, however much waits; one worker keeps the order."""
    options = {"delivery.prefetch": 200, "delivery.batch_max": 100}
    cloud = make_cloud(
        workers=1, hosts=10, agents=False, options=options, host_options={"memory_mb": 1 << 30}
    )
    cloud.start_workers()
    cloud.stop_workers()  # the queue is declared now, as in every cloud that ran once
    template = orders.run_instance(["0" * 36], unique_id="1" * 32)[2]
    uuids = [str(uuid.UUID(int=number)) for number in range(SIZES.backlog)]
    for start in range(0, len(uuids), 2000):
        cloud.client.send_bodies(
            [
                template.replace(b"0" * 36, one.encode()).replace(b"1" * 32, one.replace("-", "").encode())
                for one in uuids[start : start + 2000]
            ]
        )
    assert cloud.depth("scheduler") == SIZES.backlog
    cloud.start_workers()
    (pid,) = cloud.worker_pids()
    sizes = [rss_mb(pid)]

    def enough() -> bool:
        sizes.append(rss_mb(pid))
        return len(cloud.history.casts) >= SIZES.backlog_drained

    until(
        enough,
        max(90.0, SIZES.backlog_drained / 100),
        f"{SIZES.backlog_drained} of {SIZES.backlog} are placed",
        0.2,
    )
    cloud.rabbit.purge(cloud.vhost, "scheduler")
    until(lambda: cloud.depth("scheduler") == 0, 60, "what the worker had in hand is done")
    placed = [cast.uuid for cast in cloud.history.casts]
    assert placed == uuids[: len(placed)], "not in order"
    cloud.history.accept(placed, 1)
    cloud.settle()
    cloud.check()
    assert max(sizes) - sizes[0] < GROWTH_MB, (
        f"resident memory grew from {sizes[0]:.0f} to {max(sizes):.0f} MB"
    )
