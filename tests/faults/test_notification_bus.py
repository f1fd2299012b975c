"""A notification bus of its own that is down: scheduling does not notice, and nothing that must arrive is lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from nova_sched.testing.servers import RabbitServer
from nova_sched.testing.servers.process import free_port
from tests.faults.harness import orders
from tests.faults.harness.cloud import Cloud, until
from tests.faults.harness.proxy import Proxy
from tests.faults.harness.sizes import chance

ROUND = 100
ROUNDS = (3, 16)
"""At least, and at most until the best rounds are near each other: other work on the machine is no fault of ours."""


def test_placing_goes_on_at_the_same_rate(make_cloud: Callable[..., Cloud], rabbit: RabbitServer) -> None:
    """Within 20 % of a twin whose bus works, refused requests included; then the bus comes back and gets every ERROR."""
    port = free_port()
    draws = chance("notifications")
    well = make_cloud(workers=1, hosts=6, agents=False)
    ill = make_cloud(workers=1, hosts=6, agents=False)
    url = f"rabbit://guest:guest@127.0.0.1:{port}/{ill.vhost}"
    ill.configure({"oslo_messaging_notifications.transport_url": url})
    best = {well: float("inf"), ill: float("inf")}
    for cloud in best:
        cloud.start()
        seconds_of_a_round(cloud, draws)
    for number in range(ROUNDS[1]):
        for cloud in best:
            best[cloud] = min(best[cloud], seconds_of_a_round(cloud, draws))
        if number + 1 >= ROUNDS[0] and best[ill] <= best[well] * 1.2:
            break
    rates = {name: ROUND / best[cloud] for name, cloud in (("with", well), ("without", ill))}
    assert best[ill] <= best[well] * 1.2, (
        f"requests per second with and without the notification bus: {rates}"
    )
    print(f"requests per second with and without the notification bus: {rates}")
    waiting = ill.books.scalar("SELECT count(*) FROM sched_outbox")
    assert waiting > 0, "ERROR events wait in the outbox"
    proxy = Proxy(rabbit.port, port)
    try:
        for cloud in best:
            cloud.settle()
            cloud.check()
    finally:
        proxy.close()


def seconds_of_a_round(cloud: Cloud, draws: random.Random) -> float:
    """How long it takes to place so many requests, some of which cannot be placed."""
    made = [
        orders.run_instance(orders.fresh(), memory_mb=10_000_000 if draws.random() < 0.1 else 64)
        for _ in range(ROUND)
    ]
    began = time.monotonic()
    cloud.client.send(made)
    until(lambda: cloud.depth("scheduler") == 0, 60, "a round is placed", 0.01)
    return time.monotonic() - began
