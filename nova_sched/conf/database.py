"""Where SQL is."""

from __future__ import annotations

from nova_sched.conf.section import Item, Section
from nova_sched.conf.types import Flag, Real, Text, Whole
from nova_sched.settings import DatabaseSettings

SECTION = Section(
    DatabaseSettings,
    "database",
    {
        "connection": Item(
            Text(required=True),
            """SQLAlchemy URL: sqlite:///path for one machine (WAL mode), mysql+pymysql://user:password@host/database
            or postgresql+psycopg://… for more. Plain mysql:// and postgresql:// are understood. Our tables begin with
            ``sched_``. Needs restart.""",
            secret=True,
            also=("DEFAULT.sql_connection", "DATABASE.sql_connection", "sql.connection"),
        ),
        "max_retries": Item(
            Whole(min=0, max=1000),
            "How often a transaction that met a deadlock or a serialisation failure is tried again, with jitter.",
            also=("DEFAULT.sql_max_retries", "DATABASE.sql_max_retries"),
        ),
        "retry_interval_seconds": Item(
            Real(min=0.001, max=60.0),
            "Seconds before the first retry of a transaction; later ones wait longer.",
        ),
        "allow_nova_tables": Item(
            Flag(),
            """Let db sync and the services use a database that holds Nova's own tables. Off, because a wrong URL is
            likelier than that wish.""",
        ),
    },
)
