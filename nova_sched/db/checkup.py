"""Looks at the database as a doctor does: version, clocks, silent agents, what should have moved long ago."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from nova_sched.db import schema
from nova_sched.db.admin import AggregateAdmin
from nova_sched.db.engine import Database
from nova_sched.db.tables import claims, decisions, hosts, outbox, services
from nova_sched.errors import ConfigurationError, StoreUnavailable
from nova_sched.model.states import ClaimState
from nova_sched.model.symptom import Symptom, fine, odd, wrong
from nova_sched.settings import Settings

CLOCK_MAX_SECONDS = 2.0
OUTBOX_MAX_SECONDS = 60.0
OVERDUE_MAX_SECONDS = 60.0
NAMES_MAX = 5


def check_store(
    database: Database, settings: Settings, wall: Callable[[], float] = time.time
) -> list[Symptom]:
    """What is found in the database; ends at the first thing without which nothing else can be told."""
    try:
        version = schema.version(database)
        schema.check(database)
    except StoreUnavailable as away:
        return [wrong("database", str(away), "start the SQL server, or correct [database] connection")]
    except ConfigurationError as error:
        return [wrong("schema", str(error.value), error.expected)]
    found = [fine("schema", f"version {version}"), _clock(database, wall)]
    for look in (_agents, _intervals, _unknown_amounts, _outbox, _claims, _history):
        found += database.read(lambda connection, look=look: list(look(connection, database, settings)))  # type: ignore[misc]
    found += _aggregates(database)
    return found


def _clock(database: Database, wall: Callable[[], float]) -> Symptom:
    before = wall()
    theirs = database.read(lambda connection: _now(connection, database))
    after = wall()
    ahead = theirs - (before + after) / 2
    told = f"the database's is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    if abs(ahead) > CLOCK_MAX_SECONDS + (after - before):
        return wrong(
            "clocks", told, "run NTP on both; liveness goes by the database's clock, logs by this one"
        )
    return fine("clocks", told)


def _agents(connection: Connection, database: Database, settings: Settings) -> Iterator[Symptom]:
    down = settings.scheduler.filters.service_down_time_seconds
    now = _now(connection, database)
    rows = connection.execute(
        sa.select(services.c.host, services.c.heartbeat_at, services.c.disabled).order_by(services.c.host)
    ).all()
    if not rows:
        yield wrong(
            "agents",
            "no agent has ever reported",
            "start nova-sched-compute on the hosts, with this transport_url and report topic",
        )
        return
    silent = [
        row.host
        for row in rows
        if not row.disabled and (row.heartbeat_at is None or abs(now - row.heartbeat_at) > down)
    ]
    disabled = sum(1 for row in rows if row.disabled)
    told = f"{len(rows) - len(silent) - disabled} of {len(rows)} report, {disabled} disabled"
    if silent:
        yield wrong(
            "agents",
            f"{told}; silent for more than {down} s: {_named(silent)}",
            "look at nova-sched-compute there, or nova-sched-manage service disable HOST",
        )
    elif disabled == len(rows):
        yield wrong("agents", told, "nova-sched-manage service enable HOST")
    else:
        yield fine("agents", told)


def _intervals(connection: Connection, database: Database, settings: Settings) -> Iterator[Symptom]:
    down = settings.scheduler.filters.service_down_time_seconds
    slow = connection.execute(
        sa.select(services.c.host, services.c.interval_seconds)
        .where(services.c.interval_seconds * 2 > down, services.c.disabled == 0)
        .order_by(services.c.interval_seconds.desc())
    ).all()
    if not slow:
        yield fine("report interval", f"at least two reports fit into service_down_time ({down} s)")
        return
    worst = slow[0].interval_seconds
    told = f"{_named([row.host for row in slow])}: every {worst:g} s, down after {down} s"
    remedy = "lower report_interval there or raise service_down_time here; one lost report must not matter"
    yield (wrong if worst >= down else odd)("report interval", told, remedy)


def _unknown_amounts(connection: Connection, database: Database, settings: Settings) -> Iterator[Symptom]:
    query = (
        sa.select(hosts.c.host)
        .where(hosts.c.removed_at.is_(None))
        .where(
            hosts.c.used_memory_mb.is_(None) | hosts.c.used_vcpus.is_(None) | hosts.c.used_disk_mb.is_(None)
        )
        .order_by(hosts.c.host)
    )
    names = connection.execute(query).scalars().all()
    if names:
        yield odd(
            "amounts",
            f"RAM, vCPUs or disk in use are not known of {_named(names)}",
            "filters of that amount refuse these hosts until their agents report it",
        )


def _outbox(connection: Connection, database: Database, settings: Settings) -> Iterator[Symptom]:
    rows, oldest = connection.execute(sa.select(sa.func.count(), sa.func.min(outbox.c.created_at))).one()
    age = _now(connection, database) - oldest if rows else 0.0
    if age > OUTBOX_MAX_SECONDS:
        yield wrong(
            "outbox",
            f"{rows} ERROR events are not confirmed, the oldest for {age:.0f} s",
            "look at the notification broker; a worker's upkeep sends them as soon as it answers",
        )
    else:
        yield fine("outbox", f"{rows} ERROR events wait to be confirmed")


def _claims(connection: Connection, database: Database, settings: Settings) -> Iterator[Symptom]:
    now = _now(connection, database)
    live = sa.select(sa.func.count()).select_from(claims)
    overdue = live.where(
        claims.c.state == ClaimState.CLAIMED, claims.c.expires_at < now - OVERDUE_MAX_SECONDS
    )
    late = int(connection.execute(overdue).scalar_one())
    count = int(connection.execute(live.where(claims.c.state != ClaimState.ENDED)).scalar_one())
    if late:
        yield wrong(
            "claims",
            f"{late} of {count} live claims are past their time and not ended",
            "no upkeep runs: look at worker 0 of a scheduler; nova-sched-manage claim end UUID as a last resort",
        )
    else:
        yield fine("claims", f"{count} live, none past its time")


def _history(connection: Connection, database: Database, settings: Settings) -> Iterator[Symptom]:
    count = int(connection.execute(sa.select(sa.func.count()).select_from(decisions)).scalar_one())
    most = settings.retention.decisions_max_rows
    if count > most * 1.5:
        yield odd("history", f"{count} decision records, {most} wanted", "nova-sched-manage db purge")
    else:
        yield fine("history", f"{count} decision records of at most {most}")


def _aggregates(database: Database) -> Iterator[Symptom]:
    for aggregate in AggregateAdmin(database).list():
        if aggregate["unknown_hosts"]:
            yield odd(
                f"aggregate {aggregate['name']}",
                f"names hosts that no agent reports as: {_named(aggregate['unknown_hosts'])}",
                "correct the name (upper and lower case count), or start the agent",
            )


def _named(names: Sequence[Any]) -> str:
    shown = ", ".join(str(name) for name in names[:NAMES_MAX])
    return shown if len(names) <= NAMES_MAX else f"{shown} and {len(names) - NAMES_MAX} more"


def _now(connection: Connection, database: Database) -> float:
    return float(connection.execute(sa.text(f"SELECT {database.dialect.now}")).scalar_one())
