"""Alembic's entry: run the steps on the connection that ``schema.sync`` hands over."""

from alembic import context

from nova_sched.db.schema import VERSION_TABLE
from nova_sched.db.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
context.run_migrations()
