"""How much is taken from the bus at once, how often, how large, and how long a claim lives."""

from __future__ import annotations

from nova_sched.conf.section import Item, Section
from nova_sched.conf.types import Flag, Real, Whole
from nova_sched.settings import DeliverySettings

SECTION = Section(
    DeliverySettings,
    "delivery",
    {
        "prefetch": Item(
            Whole(min=1, max=65_535),
            """Messages that the broker may hand to one worker before it has acknowledged any. The most that is given
            again after a crash, and a bound on memory. Keep it at or above batch_max.""",
        ),
        "batch_max": Item(
            Whole(min=1, max=10_000),
            """Requests decided, committed and published together. A worker takes what is there and never waits for
            company, so this matters only under load: more means fewer transactions per request and a longer one.""",
        ),
        "max_deliveries": Item(
            Whole(min=1, max=1000),
            """How often a message may be given to a worker that then dies on it, before it goes to the dead-letter
            queue and its instances to ERROR. Outages of broker or database are not counted.""",
        ),
        "max_message_bytes": Item(
            Whole(min=1024, max=1 << 30),
            """Largest message body in bytes; a larger one goes to the dead-letter queue unparsed. A request of 1,000
            instances needs about 1 MB.""",
        ),
        "max_message_depth": Item(
            Whole(min=10, max=900),
            """Deepest nesting of lists and objects in a message; a deeper one goes to the dead-letter queue unparsed.""",
        ),
        "max_instances_per_request": Item(
            Whole(min=1, max=100_000),
            "Most instances one request may ask for; more is refused as a broken request.",
        ),
        "claim_ttl_seconds": Item(
            Whole(min=10, max=86_400),
            """Seconds within which a compute host must say that it began to build. Then the claim is given up and the
            instance is ERROR. Casts expire in the broker after half of it.""",
        ),
        "build_timeout_seconds": Item(
            Whole(min=10, max=7 * 86_400),
            "Seconds a build may take before it is given up and the instance set to ERROR.",
        ),
        "select_claim_ttl_seconds": Item(
            Whole(min=1, max=86_400),
            """Seconds for which a destination handed out by select_destinations or prep_resize stays reserved.""",
        ),
        "claim_history_seconds": Item(
            Whole(min=0, max=365 * 86_400),
            "Seconds for which ended claims are kept, so that late messages are recognised. An hour is the least useful.",
        ),
        "claim_retries_max": Item(
            Whole(min=1, max=1000),
            """How many hosts a decision may lose to other schedulers before the request is refused. Lost claims are
            counted in the metrics; many of them ask for a larger scheduler_host_subset_size.""",
        ),
        "publish_timeout_seconds": Item(
            Real(min=0.1, max=1800.0),
            """Seconds to wait for the broker to confirm a message. Then nothing is acknowledged and the batch is held
            until the broker is back.""",
        ),
        "dead_letter_ttl_seconds": Item(
            Whole(min=60, max=365 * 86_400),
            """Seconds for which the broker keeps a dead letter. It holds the whole message, passwords included. Needs
            restart, and the queue deleted before.""",
        ),
        "watchdog_interval_seconds": Item(
            Real(min=0.5, max=3600.0),
            """Seconds between two looks whether messages wait while nothing is consumed; then the consumer is opened
            anew.""",
        ),
        "durable_queues": Item(
            Flag(),
            """Queues and exchanges survive a broker restart. An existing queue or exchange of the other kind stops the
            start with one line: set false to share a broker with a Juno deployment that never set amqp_durable_queues.
            Needs restart.""",
            also=("oslo_messaging_rabbit.amqp_durable_queues", "DEFAULT.amqp_durable_queues"),
        ),
        "quorum_queues": Item(
            Flag(),
            """Replicated queues on a RabbitMQ cluster; about half the rate of classic ones. Changing it needs the
            queues deleted and a restart.""",
            also=("oslo_messaging_rabbit.rabbit_quorum_queue",),
        ),
        "tls_system_authorities": Item(
            Flag(),
            """Believe a broker whose certificate any authority of this system has signed. Off: with
            [oslo_messaging_rabbit] ssl = true the start is refused unless ssl_ca_file names the authority. The broker's
            host name is verified either way. Needs restart.""",
        ),
        "refresh_full_interval_seconds": Item(
            Real(min=1.0, max=86_400.0),
            """Seconds between two full reads of the host table; between them only what changed is read. Bounds how
            long a row that slipped through stays stale.""",
        ),
        "upkeep_interval_seconds": Item(
            Real(min=0.5, max=3600.0),
            "Seconds between two rounds of upkeep: expired claims, unsent ERROR events, purging of history.",
        ),
    },
)
