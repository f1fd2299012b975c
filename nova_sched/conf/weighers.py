"""Weighers and their multipliers; the sign says where a quantity pulls: more free RAM first (spread) or last (stack)."""

from __future__ import annotations

from nova_sched.conf.section import Item, Section
from nova_sched.conf.types import Flag, Names, Real
from nova_sched.settings import WeigherSettings

_MULTIPLIER = Real(min=-1e9, max=1e9)


def _multiplier(name: str, quantity: str) -> Item:
    return Item(
        _MULTIPLIER,
        f"""Multiplies the normalised weight (0 to 1) of {quantity}. 0 switches it off; aggregate metadata of the same
        name overrides it for the hosts of the aggregate. Reloaded on SIGHUP.""",
        also=(f"filter_scheduler.{name}",),
    )


SECTION = Section(
    WeigherSettings,
    "DEFAULT",
    {
        "classes": Item(
            Names(),
            """Weighers that run: dotted paths, or nova.scheduler.weights.all_weighers for all that come with this
            service (those added since Juno have a multiplier of 0). An empty list weighs nothing and takes hosts in
            table order. Reloaded on SIGHUP.""",
            name="scheduler_weight_classes",
            also=("filter_scheduler.weight_classes",),
        ),
        "ram_weight_multiplier": _multiplier(
            "ram_weight_multiplier",
            "free RAM: positive spreads guests over hosts, negative fills one host first;",
        ),
        "cpu_weight_multiplier": _multiplier(
            "cpu_weight_multiplier", "free vCPUs: positive spreads, negative fills one host first;"
        ),
        "disk_weight_multiplier": _multiplier(
            "disk_weight_multiplier", "free disk: positive spreads, negative fills one host first;"
        ),
        "io_ops_weight_multiplier": _multiplier(
            "io_ops_weight_multiplier",
            "the number of guests being built or moved: negative prefers quiet hosts;",
        ),
        "num_instances_weight_multiplier": _multiplier(
            "num_instances_weight_multiplier", "the number of guests: negative spreads, positive packs;"
        ),
        "build_failure_weight_multiplier": _multiplier(
            "build_failure_weight_multiplier",
            "builds that failed on the host lately: positive prefers hosts without failures;",
        ),
        "soft_affinity_weight_multiplier": _multiplier(
            "soft_affinity_weight_multiplier",
            "members of a soft-affinity group on the host: positive keeps them close;",
        ),
        "soft_anti_affinity_weight_multiplier": _multiplier(
            "soft_anti_affinity_weight_multiplier",
            "members of a soft-anti-affinity group on the host: positive keeps them apart;",
        ),
        "metrics_weight_multiplier": Item(
            _MULTIPLIER,
            "Multiplies the normalised sum of weight_setting. 0 switches MetricsWeigher off.",
            group="metrics",
            name="weight_multiplier",
        ),
        "metrics_weight_setting": Item(
            Names(),
            """Metrics that MetricsWeigher sums, as name=ratio items: cpu.percent=-1.0, net=0.5. An item that is no
            name=number is left out with a warning. Empty: no metric counts.""",
            group="metrics",
            name="weight_setting",
        ),
        "metrics_required": Item(
            Flag(),
            """What a host without one of these metrics means: true refuses the request and names host and metric
            (enable MetricsFilter to drop such hosts before); false gives it weight_of_unavailable.""",
            group="metrics",
            name="required",
        ),
        "metrics_weight_of_unavailable": Item(
            _MULTIPLIER,
            """Weight of a host that lacks a metric when required is false; far below any sum, so that such hosts come
            last.""",
            group="metrics",
            name="weight_of_unavailable",
        ),
    },
)
