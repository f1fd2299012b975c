"""SQL text that differs between SQLite, PostgreSQL and MariaDB/MySQL, in one place.

Batches travel as one JSON parameter that SQL unfolds into rows, so a statement has the same text whatever the batch's
size: it is parsed and compiled once, and a batch costs a constant number of statements. SQLite, to which no network
leads, takes the rows one by one into a prepared statement instead, which is three times cheaper there.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, CursorResult

#: Column kinds of unfolded rows, per dialect.
_TYPES = {
    "postgresql": {"int": "bigint", "float": "double precision", "text": "text"},
    "mysql": {"int": "BIGINT", "float": "DOUBLE", "key": "VARCHAR(255)", "text": "LONGTEXT"},
}

NOW = {
    # Milliseconds since the epoch; constant within a statement, like the other two.
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
    "mysql": "CAST(UNIX_TIMESTAMP(NOW(6)) AS DOUBLE)",
}


class Prepared(str):
    """Statement that takes rows one by one as named parameters."""

    __slots__ = ()

    @classmethod
    def of(cls, text: str) -> Prepared:
        """From text that names the columns of rows ``d.name``."""
        return cls(re.sub(r"\bd\.(\w+)", r":\1", text))


class Dialect:
    """What one kind of database calls things."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def now(self) -> str:
        """Expression: seconds since the epoch by the database's clock, as a float."""
        return NOW[self.name]

    def rows(self, alias: str, columns: Mapping[str, str], parameter: str = "rows") -> str:
        """A table made of the JSON list of objects in ``:parameter``.

        :param columns: name → ``int``, ``float``, ``text`` or ``key`` (text up to 255 characters, for comparing).
        """
        if self.name == "sqlite":
            fields = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in columns)
            return f"(SELECT {fields} FROM json_each(:{parameter})) AS {alias}"
        types = _TYPES[self.name]
        if self.name == "postgresql":
            fields = ", ".join(f"{name} {types.get(kind, 'text')}" for name, kind in columns.items())
            return f"json_to_recordset(CAST(:{parameter} AS json)) AS {alias}({fields})"
        fields = ", ".join(f"{name} {types[kind]} PATH '$.{name}'" for name, kind in columns.items())
        return f"JSON_TABLE(:{parameter}, '$[*]' COLUMNS ({fields})) AS {alias}"

    def locking(self, alias: str) -> str:
        """End of a SELECT that locks the rows of ``alias``. SQLite's writing transaction has locked everything."""
        if self.name == "sqlite":
            return ""
        return f" FOR UPDATE OF {alias}" if self.name == "postgresql" else " FOR UPDATE"

    @property
    def select_in_order(self) -> str:
        """SELECT that walks its first table first, so that locks are taken in the order of the rows sent."""
        return "SELECT STRAIGHT_JOIN" if self.name == "mysql" else "SELECT"

    def insert(
        self, table: str, columns: Mapping[str, str], computed: Mapping[str, str] | None = None
    ) -> str:
        """INSERT of unfolded rows; ``computed``: further columns and their SQL expressions."""
        computed = computed or {}
        names = ", ".join([*columns, *computed])
        values = ", ".join([*(f"d.{name}" for name in columns), *computed.values()])
        if self.name == "sqlite":
            return Prepared.of(f"INSERT INTO {table} ({names}) VALUES ({values})")
        return f"INSERT INTO {table} ({names}) SELECT {values} FROM {self.rows('d', columns)}"

    def update(
        self,
        table: str,
        key: Mapping[str, str],
        columns: Mapping[str, str],
        changes: Mapping[str, str],
        where: str = "",
    ) -> str:
        """UPDATE of ``table`` (as ``t``) from unfolded rows (``d``) that have the same ``key``.

        :param columns: further columns of the rows. :param changes: column → expression. :param where: extra guard.
        """
        source = self.rows("d", {**key, **columns})
        match = " AND ".join(f"t.{name} = d.{name}" for name in key) + (f" AND {where}" if where else "")
        if self.name == "mysql":
            settings = ", ".join(f"t.{name} = {value}" for name, value in changes.items())
            return f"UPDATE {source} JOIN {table} t ON {match} SET {settings}"
        settings = ", ".join(f"{name} = {value}" for name, value in changes.items())
        if self.name == "sqlite":
            return Prepared.of(f"UPDATE {table} AS t SET {settings} WHERE {match}")
        return f"UPDATE {table} AS t SET {settings} FROM {source} WHERE {match}"

    def delete(self, table: str, key: Mapping[str, str], columns: Mapping[str, str], where: str) -> str:
        """DELETE of the rows of ``table`` (``t``) that unfolded rows (``d``) name by ``key`` and that pass ``where``."""
        source = self.rows("d", {**key, **columns})
        match = " AND ".join([*(f"t.{name} = d.{name}" for name in key), where])
        if self.name == "mysql":
            return f"DELETE t FROM {source} JOIN {table} t ON {match}"
        if self.name == "postgresql":
            return f"DELETE FROM {table} AS t USING {source} WHERE {match}"
        return Prepared.of(f"DELETE FROM {table} AS t WHERE {match}")


DIALECTS = {name: Dialect(name) for name in ("sqlite", "postgresql", "mysql")}


def as_json(rows: Iterable[Any]) -> str:
    """Rows as the JSON text of one parameter."""
    return orjson.dumps(rows if isinstance(rows, list) else list(rows)).decode()


_IDS = itertools.count(random.SystemRandom().getrandbits(12))


def new_id() -> int:
    """A 63-bit row id that grows with time: microseconds and 12 bits that no neighbour is likely to share."""
    return (time.time_ns() // 1000) << 12 | next(_IDS) & 0xFFF


class Statements:
    """Named statements of one module, made once per dialect."""

    def __init__(self, **makers: Callable[[Dialect], str]) -> None:
        self._makers = makers
        self._made: dict[tuple[str, str], sa.TextClause | Prepared] = {}

    def run(
        self, connection: Connection, name: str, rows: Sequence[Any] | None = None, **values: Any
    ) -> CursorResult[Any]:
        """Execute statement ``name``; ``rows`` becomes the JSON parameter ``:rows``, where they are not sent one by one."""
        key = (connection.dialect.name, name)
        statement = self._made.get(key)
        if statement is None:
            text = self._makers[name](DIALECTS[connection.dialect.name])
            statement = self._made[key] = text if isinstance(text, Prepared) else sa.text(text)
        if isinstance(statement, Prepared):
            return connection.exec_driver_sql(statement, list(rows or ()))
        if rows is not None:
            values["rows"] = as_json(rows)
        return connection.execute(statement, values)

    def fetch(
        self, connection: Connection, name: str, rows: Sequence[Any] | None = None, **values: Any
    ) -> list[tuple[Any, ...]]:
        """Execute and return all rows, as plain tuples to read by position."""
        return cast("list[tuple[Any, ...]]", self.run(connection, name, rows, **values).fetchall())
