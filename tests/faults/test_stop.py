"""The daemon told to reload and to stop in the middle of its work."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.faults.harness import orders
from tests.faults.harness.cloud import Cloud, Load, until


def test_reload_and_stop_under_load_lose_nothing(make_cloud: Callable[..., Cloud]) -> None:
    """SIGHUP swaps settings between batches; SIGTERM finishes or returns what is in hand and exits 0; the next goes on."""
    cloud = make_cloud(workers=2, hosts=4, agents=False, daemon=True).start()
    with Load(cloud, lambda: [orders.run_instance(orders.fresh(2)) for _ in range(5)]) as load:
        assert cloud.parent is not None
        cloud.configure({"DEFAULT.scheduler_host_subset_size": 2})
        cloud.parent.send_signal(signal.SIGHUP)
        until(lambda: "deciding with the new settings" in cloud.log(), 30, "a worker has reloaded")
        load.more(20)
        for _ in range(2):
            parent = cloud.parent
            cloud.stop_workers()
            assert parent.returncode == 0, cloud.log_tail()
            load.more(10)
            cloud.start_workers()
            parent = cloud.parent
    cloud.settle()
    cloud.check()
    assert cloud.dead_letters() == 0
    counted = cloud.books.scalar("SELECT count(*) FROM sched_deliveries WHERE count > 1")
    assert counted == 0, "what is returned in good order is under no suspicion"
