"""The production form: three brokers, quorum queues. The node that leads the queue dies with all it held."""

from __future__ import annotations

from collections.abc import Callable

from nova_sched.testing.servers import RabbitServer
from tests.faults.harness import orders
from tests.faults.harness.cloud import Cloud, Load, until
from tests.faults.harness.sizes import SIZES


def test_a_killed_leader_loses_nothing(
    make_cloud: Callable[..., Cloud], rabbit_cluster: RabbitServer
) -> None:
    """kill -9 under load: another node leads, clients go to the next host, and the dead one comes back."""
    cloud = make_cloud(
        broker=rabbit_cluster, workers=2, hosts=4, agents=False, quorum=True, daemon=True
    ).start()
    assert rabbit_cluster.queues(cloud.vhost)["scheduler"]["type"] == "quorum"
    for _ in range(SIZES.leader_kills):
        with Load(cloud, lambda: [orders.run_instance(orders.fresh(2)) for _ in range(3)]) as load:
            leader = rabbit_cluster.queue_leader(cloud.vhost, "scheduler")
            leader.kill()
            load.more(60)
            leader.start()
            load.more(10)
        until(lambda: not cloud.waiting(), 90, "all is done")
        cloud.check()
    assert cloud.dead_letters() == 0
