"""The first tables."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

LONG = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TABLE: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    """Create all tables and the two counters."""
    op.create_table(
        "sched_aggregate_hosts",
        sa.Column("aggregate_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("aggregate_id", "host"),
        **TABLE,
    )
    op.create_table(
        "sched_aggregate_metadata",
        sa.Column("aggregate_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("value", LONG, nullable=False),
        sa.PrimaryKeyConstraint("aggregate_id", "key"),
        **TABLE,
    )
    op.create_table(
        "sched_aggregates",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        **TABLE,
    )
    op.create_table(
        "sched_change_seq",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("name"),
        **TABLE,
    )
    op.create_table(
        "sched_claims",
        sa.Column("instance_uuid", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("guest_uuid", sa.String(length=64), nullable=True),
        sa.Column("host_id", sa.BigInteger(), nullable=False),
        sa.Column("placed_node", sa.String(length=255), nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("method", sa.String(length=255), nullable=True),
        sa.Column("request_id", sa.String(length=255), nullable=True),
        sa.Column("vcpus", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("memory_mb", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("disk_mb", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("instances", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("io_ops", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pci", LONG, nullable=True),
        sa.Column("numa", LONG, nullable=True),
        sa.Column("limits", LONG, nullable=True),
        sa.Column("group_id", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("state_at", sa.Double(), nullable=False),
        sa.Column("ttl_seconds", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("ended_reason", sa.String(length=32), nullable=True),
        sa.PrimaryKeyConstraint("instance_uuid", "attempt"),
        **TABLE,
    )
    op.create_index("sched_claims_group", "sched_claims", ["group_id"], unique=False)
    op.create_index("sched_claims_guest", "sched_claims", ["guest_uuid"], unique=False)
    op.create_index("sched_claims_host_state", "sched_claims", ["host_id", "state"], unique=False)
    op.create_index("sched_claims_state_expires", "sched_claims", ["state", "expires_at"], unique=False)
    op.create_table(
        "sched_decisions",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("request_id", sa.String(length=255), nullable=True),
        sa.Column("method", sa.String(length=255), nullable=True),
        sa.Column("project_id", sa.String(length=255), nullable=True),
        sa.Column("placed", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("record", LONG, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **TABLE,
    )
    op.create_index("sched_decisions_created", "sched_decisions", ["created_at"], unique=False)
    op.create_table(
        "sched_deliveries",
        sa.Column("message_id", sa.String(length=255), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("message_id"),
        **TABLE,
    )
    op.create_index("sched_deliveries_updated", "sched_deliveries", ["updated_at"], unique=False)
    op.create_table(
        "sched_faults",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("instance_uuid", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("code", sa.Integer(), nullable=False),
        sa.Column("message", LONG, nullable=False),
        sa.Column("details", LONG, nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **TABLE,
    )
    op.create_index("sched_faults_instance", "sched_faults", ["instance_uuid"], unique=False)
    op.create_table(
        "sched_group_members",
        sa.Column("group_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("instance_uuid", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("group_id", "instance_uuid"),
        **TABLE,
    )
    op.create_index("sched_group_members_instance", "sched_group_members", ["instance_uuid"], unique=False)
    op.create_table(
        "sched_groups",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("uuid", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("policies", LONG, nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("uuid"),
        **TABLE,
    )
    op.create_index("sched_groups_name", "sched_groups", ["name"], unique=False)
    op.create_table(
        "sched_hosts",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("vcpus", sa.BigInteger(), nullable=True),
        sa.Column("memory_mb", sa.BigInteger(), nullable=True),
        sa.Column("local_gb", sa.BigInteger(), nullable=True),
        sa.Column("vcpus_used", sa.BigInteger(), nullable=True),
        sa.Column("memory_mb_used", sa.BigInteger(), nullable=True),
        sa.Column("local_gb_used", sa.BigInteger(), nullable=True),
        sa.Column("free_ram_mb", sa.BigInteger(), nullable=True),
        sa.Column("free_disk_gb", sa.BigInteger(), nullable=True),
        sa.Column("disk_available_least", sa.BigInteger(), nullable=True),
        sa.Column("hypervisor_type", LONG, nullable=True),
        sa.Column("hypervisor_version", sa.BigInteger(), nullable=True),
        sa.Column("cpu_info", LONG, nullable=True),
        sa.Column("supported_instances", LONG, nullable=True),
        sa.Column("metrics", LONG, nullable=True),
        sa.Column("pci_stats", LONG, nullable=True),
        sa.Column("numa_topology", LONG, nullable=True),
        sa.Column("stats", LONG, nullable=True),
        sa.Column("host_ip", LONG, nullable=True),
        sa.Column("running_vms", sa.BigInteger(), nullable=True),
        sa.Column("current_workload", sa.BigInteger(), nullable=True),
        sa.Column("cpu_allocation_ratio", sa.Double(), nullable=True),
        sa.Column("ram_allocation_ratio", sa.Double(), nullable=True),
        sa.Column("disk_allocation_ratio", sa.Double(), nullable=True),
        sa.Column("failed_builds", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("used_vcpus", sa.BigInteger(), nullable=True),
        sa.Column("used_memory_mb", sa.BigInteger(), nullable=True),
        sa.Column("used_disk_mb", sa.BigInteger(), nullable=True),
        sa.Column("used_instances", sa.BigInteger(), nullable=True),
        sa.Column("used_io_ops", sa.BigInteger(), nullable=True),
        sa.Column("claimed_vcpus", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("claimed_memory_mb", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("claimed_disk_mb", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("claimed_instances", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("claimed_io_ops", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("claimed_devices", LONG, nullable=True),
        sa.Column("allocation_generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("report_epoch", sa.BigInteger(), nullable=True),
        sa.Column("report_seq", sa.BigInteger(), nullable=True),
        sa.Column("changed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=True),
        sa.Column("removed_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("host", "node", name="sched_hosts_host_node"),
        **TABLE,
    )
    op.create_index("sched_hosts_changed", "sched_hosts", ["changed"], unique=False)
    op.create_table(
        "sched_instance_events",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("instance_uuid", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(length=255), nullable=False),
        sa.Column("request_id", sa.String(length=255), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("result", sa.String(length=255), nullable=True),
        sa.Column("traceback", LONG, nullable=True),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("decision_id", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        **TABLE,
    )
    op.create_index("sched_instance_events_finished", "sched_instance_events", ["finished_at"], unique=False)
    op.create_index(
        "sched_instance_events_instance", "sched_instance_events", ["instance_uuid"], unique=False
    )
    op.create_table(
        "sched_instances",
        sa.Column("uuid", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("vm_state", sa.String(length=32), nullable=True),
        sa.Column("task_state", sa.String(length=32), nullable=True),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.Column("project_id", sa.String(length=255), nullable=True),
        sa.Column("user_id", sa.String(length=255), nullable=True),
        sa.Column("display_name", sa.String(length=255), nullable=True),
        sa.Column("reservation_id", sa.String(length=255), nullable=True),
        sa.Column("instance_type_id", sa.BigInteger(), nullable=True),
        sa.Column("flavor", sa.String(length=255), nullable=True),
        sa.Column("image_ref", sa.String(length=255), nullable=True),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("vcpus", sa.BigInteger(), nullable=True),
        sa.Column("memory_mb", sa.BigInteger(), nullable=True),
        sa.Column("disk_mb", sa.BigInteger(), nullable=True),
        sa.Column("launch_index", sa.BigInteger(), nullable=True),
        sa.Column("request_id", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("deleted_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("uuid"),
        **TABLE,
    )
    op.create_index("sched_instances_deleted", "sched_instances", ["deleted_at"], unique=False)
    op.create_index("sched_instances_host", "sched_instances", ["host"], unique=False)
    op.create_index("sched_instances_state", "sched_instances", ["vm_state", "updated_at"], unique=False)
    op.create_table(
        "sched_outbox",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("message_id", sa.String(length=64), nullable=False),
        sa.Column("event", LONG, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **TABLE,
    )
    op.create_table(
        "sched_services",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("disabled", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("disabled_reason", sa.String(length=255), nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("interval_seconds", sa.Double(), nullable=True),
        sa.Column("version", sa.String(length=255), nullable=True),
        sa.Column("heartbeat_at", sa.Double(), nullable=True),
        sa.Column("changed", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("host"),
        **TABLE,
    )
    op.create_index("sched_services_changed", "sched_services", ["changed"], unique=False)
    op.execute("INSERT INTO sched_change_seq (name, value) VALUES ('hosts', 1), ('aggregates', 1)")
