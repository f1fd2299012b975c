"""The metrics there are: names, labels, buckets and help, in the shapes of kube-scheduler under our prefix.

One table, so that dashboards, alerts, documentation and tests can be checked against it. Counters and durations that
the loop reports through :class:`~nova_sched.service.ports.Observer` keep their name here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "nova_sched_"

#: Seconds; from a fraction of a millisecond (one decision) to what an operator would call stuck.
FAST_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
SLOW_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``kind``: counter, histogram or gauge; ``mode``: how a gauge of several workers is merged."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    mode: Literal["livesum", "livemin", "livemax", "liveall"] = "livesum"


COUNTERS = {
    "requests": Metric("counter", "Requests taken, by RPC method.", ("method",)),
    "instances": Metric("counter", "Instances that reached an outcome, by outcome.", ("outcome",)),
    "schedule_attempts": Metric(
        "counter", "Instances decided, by result: scheduled, unschedulable, error.", ("result",)
    ),
    "no_valid_host": Metric(
        "counter",
        "Instances without a host, by the filter that left none (request: refused before any filter; before: all hosts"
        " ignored or tried; no_hosts: none are known).",
        ("filter",),
    ),
    "filter_rejections": Metric("counter", "Hosts a filter took out, by filter.", ("filter",)),
    "claims_lost": Metric("counter", "Claims refused by a guard and decided again, by guard.", ("guard",)),
    "undeliverable_casts": Metric("counter", "Build casts that no queue took; sent to the next ranked host."),
    "late_claims": Metric("counter", "Claims not cast because more than half of their life had passed."),
    "plugin_errors": Metric("counter", "Requests failed because a plugin broke, by plugin.", ("plugin",)),
    "held_batches": Metric(
        "counter", "Batches held because SQL or the broker was away, by cause.", ("cause",)
    ),
    "host_reads": Metric("counter", "Reads of host state, by kind: full, delta, rows.", ("kind",)),
    "bus_messages": Metric("counter", "Messages taken from the broker, by topic.", ("topic",)),
    "bus_redelivered": Metric("counter", "Messages the broker delivered again, by topic.", ("topic",)),
    "bus_poison": Metric("counter", "Messages put into the dead-letter queue, by topic.", ("topic",)),
    "bus_held": Metric("counter", "Batches held by the server loop during an outage, by topic.", ("topic",)),
    "reports": Metric("counter", "Reports of agents, by outcome.", ("outcome",)),
    "instance_updates": Metric("counter", "Words of agents about one instance, by outcome.", ("outcome",)),
    "claims_expired": Metric("counter", "Claims ended by upkeep, by reason.", ("reason",)),
    "outbox_sent": Metric("counter", "ERROR events of the outbox that the broker confirmed."),
    "rows_purged": Metric("counter", "Rows of history deleted, by table.", ("table",)),
    "events_dropped": Metric("counter", "INFO notifications given up because their bus was away."),
    "connections_lost": Metric(
        "counter",
        "Consuming connections that broke or were given up by their watchdog, by topic.",
        ("topic",),
    ),
    "reloads": Metric("counter", "Configurations read again, by result: applied, refused.", ("result",)),
    "shadow_decisions": Metric(
        "counter",
        "Decisions that the shadow configuration made as well, by result: same, differs, failed.",
        ("result",),
    ),
}

HISTOGRAMS = {
    "stage": Metric(
        "histogram",
        "Duration of one stage of a batch: prior, refresh, decide, shadow, commit, publish.",
        ("stage",),
        SLOW_BUCKETS,
    ),
    "batch": Metric("histogram", "Duration of one batch, from taking to acknowledging.", (), SLOW_BUCKETS),
    "scheduling_attempt_duration": Metric(
        "histogram",
        "From a request's turn in a batch to its confirmed cast or committed refusal, by result.",
        ("result",),
        SLOW_BUCKETS,
    ),
    "scheduling_algorithm_duration": Metric(
        "histogram", "Filtering and weighing of one request.", (), FAST_BUCKETS
    ),
    "message_duration": Metric(
        "histogram",
        "End to end: from taking a message to its acknowledgement, by topic.",
        ("topic",),
        SLOW_BUCKETS,
    ),
    "plugin_execution_duration": Metric(
        "histogram",
        "One filter or weigher for one request (one request of 32 is measured).",
        ("plugin",),
        FAST_BUCKETS,
    ),
    "confirm_latency": Metric(
        "histogram",
        "From publishing the casts of a batch to the broker's word on all of them.",
        (),
        SLOW_BUCKETS,
    ),
}

GAUGES = {
    "pending_requests": Metric(
        "gauge", "Requests taken from the broker and not yet acknowledged.", mode="livesum"
    ),
    "outbox_rows": Metric(
        "gauge", "ERROR events committed and not yet confirmed by the broker.", mode="livemax"
    ),
    "hosts": Metric("gauge", "Hosts in the table, by state: up, down, disabled.", ("state",), mode="livemax"),
    "host_state_read_monotonic_seconds": Metric(
        "gauge", "Monotonic second of each worker's last successful read of host state.", mode="liveall"
    ),
    "loop_monotonic_seconds": Metric("gauge", "Monotonic second of each worker's last turn.", mode="liveall"),
    "broker_up": Metric("gauge", "1 while the worker's consumer is connected.", mode="liveall"),
    "broker_blocked": Metric("gauge", "1 while the broker blocks publishers.", mode="livemax"),
    "store_up": Metric("gauge", "1 while SQL answers the worker.", mode="liveall"),
    "build_info": Metric(
        "gauge", "Always 1; the version is in the label.", ("version", "driver"), mode="livemax"
    ),
}

CATALOGUE: dict[str, Metric] = {**COUNTERS, **HISTOGRAMS, **GAUGES}


def full_name(name: str) -> str:
    """Name as scraped: prefix, ``_total`` for counters, ``_seconds`` for histograms."""
    metric = CATALOGUE[name]
    suffix = {"counter": "_total", "histogram": "_seconds", "gauge": ""}[metric.kind]
    return f"{PREFIX}{name}{suffix}"
