"""Everything the house can be told, as frozen values with units in their names.

``conf.build`` fills these once from an oslo.config object; nothing below ``conf`` sees that object. The defaults are
the options' defaults, so tests build what they need by keyword.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

JUNO_FILTERS = (
    "RetryFilter",
    "AvailabilityZoneFilter",
    "RamFilter",
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)
ALL_FILTERS = "nova.scheduler.filters.all_filters"
ALL_WEIGHERS = "nova.scheduler.weights.all_weighers"


@dataclass(frozen=True, slots=True)
class TrustedSettings:
    """Attestation service of TrustedFilter ([trusted_computing])."""

    attestation_server: str | None = None
    attestation_port: int = 8443
    attestation_server_ca_file: str | None = None
    attestation_api_url: str = "/OpenAttestationWebServices/V1.0"
    attestation_auth_blob: str | None = field(default=None, repr=False)
    attestation_auth_timeout_seconds: int = 60
    attestation_insecure_ssl: bool = False
    request_timeout_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class FilterSettings:
    """Which filters run and their numbers; names of Juno's options in ``[DEFAULT]``."""

    available: tuple[str, ...] = (ALL_FILTERS,)
    enabled: tuple[str, ...] = JUNO_FILTERS
    ram_allocation_ratio: float = 1.5
    cpu_allocation_ratio: float = 16.0
    disk_allocation_ratio: float = 1.0
    max_io_ops_per_host: int = 8
    max_instances_per_host: int = 50
    default_availability_zone: str = "nova"
    service_down_time_seconds: int = 60
    isolated_images: tuple[str, ...] = ()
    isolated_hosts: tuple[str, ...] = ()
    restrict_isolated_hosts_to_isolated_images: bool = True
    aggregate_image_properties_isolation_namespace: str | None = None
    aggregate_image_properties_isolation_separator: str = "."
    aggregate_image_properties_isolation_strict: bool = False
    """Keep images without the property off an aggregate that names it (ours, off as in Nova)."""
    trusted: TrustedSettings = TrustedSettings()


@dataclass(frozen=True, slots=True)
class WeigherSettings:
    """Which weighers run and their multipliers."""

    classes: tuple[str, ...] = (ALL_WEIGHERS,)
    ram_weight_multiplier: float = 1.0
    cpu_weight_multiplier: float = 0.0
    disk_weight_multiplier: float = 0.0
    io_ops_weight_multiplier: float = 0.0
    num_instances_weight_multiplier: float = 0.0
    build_failure_weight_multiplier: float = 0.0
    soft_affinity_weight_multiplier: float = 0.0
    soft_anti_affinity_weight_multiplier: float = 0.0
    metrics_weight_multiplier: float = 1.0
    metrics_weight_setting: tuple[str, ...] = ()
    metrics_required: bool = True
    metrics_weight_of_unavailable: float = -10000.0


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """Plugins of others ([plugins])."""

    plugin_timeout_seconds: float = 5.0
    nova_imports: bool = False
    """Let ``import nova.scheduler.filters`` inside plugins resolve to ours."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The driver and what all drivers share."""

    driver: str = "filter_scheduler"
    host_subset_size: int = 1
    max_attempts: int = 3
    driver_task_period_seconds: int = 60
    shuffle_best_same_weighed_hosts: bool = False
    explanation_top_hosts: int = 5
    policy_names_require_filter: bool = True
    filters: FilterSettings = FilterSettings()
    weighers: WeigherSettings = WeigherSettings()
    plugins: PluginSettings = PluginSettings()


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """[delivery]: how much is taken at once, how often, how large, and how long a claim lives."""

    prefetch: int = 200
    batch_max: int = 100
    max_deliveries: int = 5
    max_message_bytes: int = 4 * 1024 * 1024
    max_message_depth: int = 100
    max_instances_per_request: int = 1000
    claim_ttl_seconds: int = 300
    build_timeout_seconds: int = 3600
    select_claim_ttl_seconds: int = 60
    claim_history_seconds: int = 86400
    claim_retries_max: int = 10
    publish_timeout_seconds: float = 30.0
    dead_letter_ttl_seconds: int = 7 * 86400
    watchdog_interval_seconds: float = 10.0
    durable_queues: bool = True
    quorum_queues: bool = False
    tls_system_authorities: bool = False
    refresh_full_interval_seconds: float = 60.0
    upkeep_interval_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class BusSettings:
    """Names on the wire."""

    control_exchange: str = "nova"
    scheduler_topic: str = "scheduler"
    compute_topic: str = "compute"
    report_topic: str = "scheduler_report"
    dead_letter_queue: str = "scheduler.dead_letter"
    host: str = "localhost"
    notify_on_state_change: str | None = "vm_state"
    notification_drivers: tuple[str, ...] = ("messaging",)
    notification_topics: tuple[str, ...] = ("notifications",)
    compute_version_cap: str | None = None
    scheduler_version_cap: str | None = None


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """[database]: where SQL is."""

    connection: str = field(default="sqlite:///nova_sched.sqlite", repr=False)
    max_retries: int = 10
    retry_interval_seconds: float = 0.1
    allow_nova_tables: bool = False


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """[retention]: how long history is kept."""

    decisions_max_rows: int = 100_000
    decisions_max_age_seconds: int = 7 * 86400
    events_max_age_seconds: int = 30 * 86400
    deleted_instances_max_age_seconds: int = 30 * 86400


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """[health]: metrics, probes and the page."""

    enabled: bool = True
    bind: str = "127.0.0.1"
    port: int = 9474
    host_state_max_age_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """[agent]: the reference compute agent and its simulated hypervisor."""

    report_interval_seconds: float = 10.0
    node: str | None = None
    vcpus: int = 16
    memory_mb: int = 32768
    local_gb: int = 500
    build_seconds: float = 0.1
    failure_rate: float = 0.0
    seed: int = 0
    state_path: str | None = None
    max_attempts: int = 3
    workers: int = 4


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it. ``extras``: options that plugins of others registered, by ``group.name``."""

    scheduler: SchedulerSettings = SchedulerSettings()
    delivery: DeliverySettings = DeliverySettings()
    bus: BusSettings = BusSettings()
    database: DatabaseSettings = DatabaseSettings()
    retention: RetentionSettings = RetentionSettings()
    health: HealthSettings = HealthSettings()
    agent: AgentSettings = AgentSettings()
    workers: int = 1
    graceful_shutdown_timeout_seconds: int = 60
    shadow_config_file: str | None = None
    extras: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)
