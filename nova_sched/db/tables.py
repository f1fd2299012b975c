"""All tables. Amounts are BIGINT, disk is MB, times are seconds since the epoch by the database's clock (``*_at``).

Names compare byte by byte everywhere (``utf8mb4_bin`` on MariaDB), as Nova's API compares them. There are no foreign
keys: rows are changed under the locks that ``claims.py`` names, and history outlives what it speaks of.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

metadata = sa.MetaData()

_LONG = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TABLE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}

UUID_LENGTH = 64
NAME_LENGTH = 255


def _column(name: str, kind: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, **options)


def _amount(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


def _name(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.String(NAME_LENGTH), **options)


def _uuid(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.String(UUID_LENGTH), **options)


#: Two counters: ``hosts`` stamps every row a delta read must see, ``aggregates`` says when to read those again.
change_seq = sa.Table(
    "sched_change_seq",
    metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    _amount("value"),
    **_TABLE,
)

services = sa.Table(
    "sched_services",
    metadata,
    sa.Column("id", _BIG_ID, primary_key=True),
    _name("host", nullable=False, unique=True),
    _column("disabled", sa.SmallInteger, nullable=False, server_default="0"),
    _name("disabled_reason"),
    _column("epoch", sa.BigInteger),
    _column("seq", sa.BigInteger),
    _column("interval_seconds", sa.Double),
    _name("version"),
    _column("heartbeat_at", sa.Double),
    _amount("changed"),
    sa.Index("sched_services_changed", "changed"),
    **_TABLE,
)

#: What an agent reports: column of ``compute_nodes`` → kind (as in ``sqltext``).
REPORTED = {
    "vcpus": "int",
    "memory_mb": "int",
    "local_gb": "int",
    "vcpus_used": "int",
    "memory_mb_used": "int",
    "local_gb_used": "int",
    "free_ram_mb": "int",
    "free_disk_gb": "int",
    "disk_available_least": "int",
    "hypervisor_type": "text",
    "hypervisor_version": "int",
    "cpu_info": "text",
    "supported_instances": "text",
    "metrics": "text",
    "pci_stats": "text",
    "numa_topology": "text",
    "stats": "text",
    "host_ip": "text",
    "running_vms": "int",
    "current_workload": "int",
    "cpu_allocation_ratio": "float",
    "ram_allocation_ratio": "float",
    "disk_allocation_ratio": "float",
}
_KINDS: dict[str, Any] = {"int": sa.BigInteger, "float": sa.Double, "text": _LONG}

#: Amounts in use as the filters see them, derived from a report (``reports/derive.py``); NULL is unknown, unguarded.
USED = ("used_vcpus", "used_memory_mb", "used_disk_mb", "used_instances", "used_io_ops")
#: Amounts of live claims that the report does not contain.
CLAIMED = ("claimed_vcpus", "claimed_memory_mb", "claimed_disk_mb", "claimed_instances", "claimed_io_ops")

hosts = sa.Table(
    "sched_hosts",
    metadata,
    sa.Column("id", _BIG_ID, primary_key=True),
    _name("host", nullable=False),
    _name("node", nullable=False),
    *(_column(name, _KINDS[kind]) for name, kind in REPORTED.items()),
    _amount("failed_builds"),
    *(_column(name, sa.BigInteger) for name in USED),
    *(_amount(name) for name in CLAIMED),
    _column("claimed_devices", _LONG),
    _amount("allocation_generation"),
    _column("report_epoch", sa.BigInteger),
    _column("report_seq", sa.BigInteger),
    _amount("changed"),
    _column("changed_at", sa.Double),
    _column("removed_at", sa.Double),
    sa.UniqueConstraint("host", "node", name="sched_hosts_host_node"),
    sa.Index("sched_hosts_changed", "changed"),
    mysql_row_format="DYNAMIC",
    **_TABLE,
)

claims = sa.Table(
    "sched_claims",
    metadata,
    _uuid("instance_uuid", primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    # The guest that a move claims for; NULL for builds, whose key is the guest itself: an index less to fill per build.
    _uuid("guest_uuid"),
    _column("host_id", sa.BigInteger, nullable=False),
    # As the placement named it: the chance driver names none, and a repeated cast must not either.
    _name("placed_node"),
    _column("kind", sa.String(16), nullable=False),
    _column("state", sa.String(16), nullable=False),
    _name("method"),
    _name("request_id"),
    *(_amount(name) for name in ("vcpus", "memory_mb", "disk_mb", "instances", "io_ops")),
    _column("pci", _LONG),
    _column("numa", _LONG),
    _column("limits", _LONG),
    _column("group_id", sa.BigInteger),
    _column("created_at", sa.Double, nullable=False),
    _column("state_at", sa.Double, nullable=False),
    _column("ttl_seconds", sa.Double, nullable=False),
    _column("expires_at", sa.Double, nullable=False),
    _column("ended_reason", sa.String(32)),
    sa.Index("sched_claims_host_state", "host_id", "state"),
    sa.Index("sched_claims_state_expires", "state", "expires_at"),
    sa.Index("sched_claims_guest", "guest_uuid"),
    sa.Index("sched_claims_group", "group_id"),
    **_TABLE,
)

#: What is kept of ``instance_properties``: an allow-list, so that no secret gets here by being new.
PROPERTIES = {
    "project_id": "text",
    "user_id": "text",
    "display_name": "text",
    "reservation_id": "text",
    "instance_type_id": "int",
    "flavor": "text",
    "image_ref": "text",
    "availability_zone": "text",
    "vcpus": "int",
    "memory_mb": "int",
    "disk_mb": "int",
    "launch_index": "int",
}

instances = sa.Table(
    "sched_instances",
    metadata,
    _uuid("uuid", primary_key=True),
    sa.Column("attempt", sa.Integer, nullable=False),
    _column("vm_state", sa.String(32)),
    _column("task_state", sa.String(32)),
    _name("host"),
    _name("node"),
    *(_name(name) if kind == "text" else _column(name, sa.BigInteger) for name, kind in PROPERTIES.items()),
    _name("request_id"),
    _column("created_at", sa.Double, nullable=False),
    _column("updated_at", sa.Double, nullable=False),
    _column("deleted_at", sa.Double),
    sa.Index("sched_instances_host", "host"),
    sa.Index("sched_instances_deleted", "deleted_at"),
    sa.Index("sched_instances_state", "vm_state", "updated_at"),
    **_TABLE,
)

groups = sa.Table(
    "sched_groups",
    metadata,
    sa.Column("id", _BIG_ID, primary_key=True),
    _uuid("uuid", nullable=False, unique=True),
    _name("name", nullable=False),
    _column("policies", _LONG, nullable=False),
    _amount("generation"),
    sa.Index("sched_groups_name", "name"),
    **_TABLE,
)

group_members = sa.Table(
    "sched_group_members",
    metadata,
    sa.Column("group_id", sa.BigInteger, primary_key=True, autoincrement=False),
    _uuid("instance_uuid", primary_key=True),
    sa.Index("sched_group_members_instance", "instance_uuid"),
    **_TABLE,
)

aggregates = sa.Table(
    "sched_aggregates",
    metadata,
    sa.Column("id", _BIG_ID, primary_key=True),
    _name("name", nullable=False, unique=True),
    **_TABLE,
)

aggregate_hosts = sa.Table(
    "sched_aggregate_hosts",
    metadata,
    sa.Column("aggregate_id", sa.BigInteger, primary_key=True, autoincrement=False),
    _name("host", primary_key=True),
    **_TABLE,
)

aggregate_metadata = sa.Table(
    "sched_aggregate_metadata",
    metadata,
    sa.Column("aggregate_id", sa.BigInteger, primary_key=True, autoincrement=False),
    _name("key", primary_key=True),
    _column("value", _LONG, nullable=False),
    **_TABLE,
)

faults = sa.Table(
    "sched_faults",
    metadata,
    sa.Column("id", _BIG_ID, primary_key=True),
    _uuid("instance_uuid", nullable=False),
    _column("attempt", sa.Integer, nullable=False),
    _column("code", sa.Integer, nullable=False),
    _column("message", _LONG, nullable=False),
    _column("details", _LONG),
    _column("created_at", sa.Double, nullable=False),
    sa.Index("sched_faults_instance", "instance_uuid"),
    **_TABLE,
)

instance_events = sa.Table(
    "sched_instance_events",
    metadata,
    sa.Column("id", _BIG_ID, primary_key=True),
    _uuid("instance_uuid", nullable=False),
    _column("attempt", sa.Integer, nullable=False),
    _name("event", nullable=False),
    _name("request_id"),
    _column("started_at", sa.Double),
    _column("finished_at", sa.Double),
    _name("result"),
    _column("traceback", _LONG),
    _name("host"),
    _column("decision_id", sa.BigInteger),
    sa.Index("sched_instance_events_instance", "instance_uuid"),
    sa.Index("sched_instance_events_finished", "finished_at"),
    **_TABLE,
)

decisions = sa.Table(
    "sched_decisions",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    _name("request_id"),
    _name("method"),
    _name("project_id"),
    _column("placed", sa.Integer, nullable=False),
    _column("failed", sa.Integer, nullable=False),
    _column("record", _LONG, nullable=False),
    _column("created_at", sa.Double, nullable=False),
    sa.Index("sched_decisions_created", "created_at"),
    **_TABLE,
)

outbox = sa.Table(
    "sched_outbox",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    _uuid("message_id", nullable=False),
    _column("event", _LONG, nullable=False),
    _column("created_at", sa.Double, nullable=False),
    **_TABLE,
)

deliveries = sa.Table(
    "sched_deliveries",
    metadata,
    _name("message_id", primary_key=True),
    _column("count", sa.Integer, nullable=False),
    _column("updated_at", sa.Double, nullable=False),
    sa.Index("sched_deliveries_updated", "updated_at"),
    **_TABLE,
)

#: Tables that say "this is Nova's own database".
NOVA_TABLES = frozenset(
    {"instances", "compute_nodes", "services", "instance_types", "migrate_version", "aggregates"}
)
