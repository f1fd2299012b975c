"""The schema's version: bring it up to date, tell it, and check it at the start."""

from __future__ import annotations

import logging
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from nova_sched.db.engine import Database
from nova_sched.db.tables import NOVA_TABLES
from nova_sched.errors import ConfigurationError

LOG = logging.getLogger(__name__)
VERSION_TABLE = "sched_alembic_version"


def newest() -> str:
    """The version this code wants."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def sync(database: Database, target: str = "head") -> str:
    """Create or upgrade all tables; the new version. Safe to run twice, and beside a running service.

    Raises ConfigurationError for a database that holds Nova's own tables (unless ``allow_nova_tables``),
    StoreUnavailable.
    """

    def upgrade(connection: Connection) -> None:
        _refuse_nova(connection, database)
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, target)

    database.write(upgrade)
    found = version(database)
    assert found is not None
    return found


def version(database: Database) -> str | None:
    """The version of the tables there are; None for an empty database.

    Raises StoreUnavailable, and ConfigurationError for a SQLite file that is not there.
    """
    _refuse_missing(database)
    return database.read(_version)


def check(database: Database) -> None:
    """Raise ConfigurationError unless the tables are the ones this code wants; StoreUnavailable."""

    def look(connection: Connection) -> str | None:
        _refuse_nova(connection, database)
        return _version(connection)

    _refuse_missing(database)
    found, wanted = database.read(look), newest()
    if found != wanted:
        raise ConfigurationError(
            "version of the tables", found or "none", f"{wanted}; run: nova-sched-manage db sync"
        )


def _refuse_missing(database: Database) -> None:
    """To look at a SQLite file would make an empty one, under a name that may be misspelt."""
    if missing := database.missing_file:
        raise ConfigurationError(
            "database.connection",
            f"sqlite:///{missing}",
            "a file that exists; to make it run: nova-sched-manage db sync",
        )


def _version(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def _refuse_nova(connection: Connection, database: Database) -> None:
    if database.settings.allow_nova_tables:
        return
    found = NOVA_TABLES & set(sa.inspect(connection).get_table_names())
    if len(found) > 1:
        raise ConfigurationError(
            "database.connection",
            database.url.render_as_string(hide_password=True),
            f"a database of our own, not one with Nova's tables ({', '.join(sorted(found))}); database.allow_nova_tables = true overrides",
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
