"""Filters and their numbers: Juno's names in ``[DEFAULT]``, today's in ``[filter_scheduler]`` as aliases."""

from __future__ import annotations

from nova_sched.conf.section import Item, Section
from nova_sched.conf.types import Flag, Names, Real, Text, Whole
from nova_sched.settings import FilterSettings

_RATIO = Real(min=0.0, max=1_000_000.0)

SECTION = Section(
    FilterSettings,
    "DEFAULT",
    {
        "available": Item(
            Names(),
            """Filters that scheduler_default_filters may name: dotted paths of classes, of modules' lists, or
            nova.scheduler.filters.all_filters (standard_filters means the same) for all that come with this service.
            May be given several times; keep all_filters when you add your own. Reloaded on SIGHUP.""",
            name="scheduler_available_filters",
            also=("filter_scheduler.available_filters",),
            multi=True,
        ),
        "enabled": Item(
            Names(),
            """Filters that run, by class name, in this order (put what removes most and costs least first). A name that
            is unknown or not available stops the start. An empty list lets every host pass. Reloaded on SIGHUP.""",
            name="scheduler_default_filters",
            also=("filter_scheduler.enabled_filters",),
        ),
        "ram_allocation_ratio": Item(
            _RATIO,
            """Virtual to physical RAM per host, for all hosts without a ratio of their own (aggregate metadata
            ram_allocation_ratio, then the host's report). 1.5 is Juno's default; 1.0 never overcommits; 0 lets nothing
            fit. Read by RamFilter and AggregateRamFilter, and sent to the compute host as a limit.""",
        ),
        "cpu_allocation_ratio": Item(
            _RATIO,
            """Virtual to physical CPUs per host, for all hosts without a ratio of their own. Read by CoreFilter and
            AggregateCoreFilter only; neither is in the default list. 16.0 is Juno's default; 0 lets nothing fit.""",
        ),
        "disk_allocation_ratio": Item(
            _RATIO,
            """Virtual to physical disk per host, for all hosts without a ratio of their own. Read by DiskFilter and
            AggregateDiskFilter. Above 1.0 guests can run out of disk while they run; 0 lets nothing fit.""",
        ),
        "max_io_ops_per_host": Item(
            Whole(min=0, max=1_000_000),
            """IoOpsFilter refuses hosts on which this many guests are being built, resized, migrated, rescued,
            snapshotted or unshelved. Aggregate metadata max_io_ops_per_host overrides it in AggregateIoOpsFilter.""",
            also=("filter_scheduler.max_io_ops_per_host",),
        ),
        "max_instances_per_host": Item(
            Whole(min=0, max=1_000_000),
            """NumInstancesFilter refuses hosts with this many guests. Aggregate metadata max_instances_per_host
            overrides it in AggregateNumInstancesFilter.""",
            also=("filter_scheduler.max_instances_per_host",),
        ),
        "default_availability_zone": Item(
            Text(required=True),
            """Zone of hosts that no aggregate puts in another one. Change it together with Nova's own setting.""",
        ),
        "service_down_time_seconds": Item(
            Whole(min=1, max=86_400),
            """Seconds without a report after which a host counts as down and gets no guests. Must be larger than
            report_interval, or hosts flap; the start is refused otherwise. Six missed reports at the defaults.""",
            name="service_down_time",
        ),
        "isolated_images": Item(
            Names(),
            """Image ids that IsolatedHostsFilter keeps on isolated_hosts.""",
            also=("filter_scheduler.isolated_images",),
        ),
        "isolated_hosts": Item(
            Names(),
            """Host names that IsolatedHostsFilter reserves for isolated_images.""",
            also=("filter_scheduler.isolated_hosts",),
        ),
        "restrict_isolated_hosts_to_isolated_images": Item(
            Flag(),
            """Keep other images off isolated_hosts. When false, those hosts take any image.""",
            also=("filter_scheduler.restrict_isolated_hosts_to_isolated_images",),
        ),
        "aggregate_image_properties_isolation_namespace": Item(
            Text(),
            """AggregateImagePropertiesIsolation looks only at aggregate metadata keys that begin with this text and
            the separator. Not set: at all keys.""",
            also=("filter_scheduler.aggregate_image_properties_isolation_namespace",),
        ),
        "aggregate_image_properties_isolation_separator": Item(
            Text(),
            """Stands between the namespace and the key; may be empty.""",
            also=("filter_scheduler.aggregate_image_properties_isolation_separator",),
        ),
        "aggregate_image_properties_isolation_strict": Item(
            Flag(),
            """Keep images that lack the property off an aggregate that names it (licensed hosts stay for licensed
            images). Off, as in Nova, such images pass.""",
            group="filter_scheduler",
        ),
    },
    nested=frozenset({"trusted"}),
)
