"""A database in which many instances were placed before."""

from __future__ import annotations

import sqlalchemy as sa

from benchmarks.sql import Store

_ROWS_PER_STATEMENT = 100_000

#: Active instances that their hosts' reports contain: held claims count nothing any more, but they are there.
_INSTANCES = """
INSERT INTO sched_instances (uuid, attempt, vm_state, host, node, project_id, vcpus, memory_mb, disk_mb, created_at, updated_at)
SELECT printf('aaaa0000-0000-4000-8000-%012d', n), 1, 'active', 'host-' || (n % :hosts), 'node-' || (n % :hosts), 'project-1',
       2, 2048, 20480, 0, 0
FROM (WITH RECURSIVE c(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM c WHERE n < :last) SELECT n FROM c)
"""
_CLAIMS = """
INSERT INTO sched_claims (instance_uuid, attempt, guest_uuid, host_id, kind, state, vcpus, memory_mb, disk_mb, instances, io_ops,
                          created_at, state_at, ttl_seconds, expires_at)
SELECT uuid, 1, uuid, 1 + CAST(substr(host, 6) AS INTEGER), 'build', 'held', 2, 2048, 20480, 1, 1, 0, 0, 300, 300
FROM sched_instances WHERE uuid >= printf('aaaa0000-0000-4000-8000-%012d', :first)
                       AND uuid <= printf('aaaa0000-0000-4000-8000-%012d', :last)
"""


def place_before(store: Store, hosts: int, instances: int) -> None:
    """Put so many instances with their claims into an SQLite store; every host has as many."""
    for first in range(0, instances, _ROWS_PER_STATEMENT):
        values = {"first": first, "last": min(first + _ROWS_PER_STATEMENT, instances) - 1}

        def write(connection: sa.Connection, values: dict[str, int] = values) -> None:
            connection.execute(sa.text(_INSTANCES), {**values, "hosts": hosts})
            connection.execute(sa.text(_CLAIMS), values)

        store.database.write(write)
