"""Clouds for fault tests, and the seed at the head of every report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nova_sched.testing.servers import PostgresServer, RabbitServer
from tests.faults.harness.cloud import Cloud, fresh_database
from tests.faults.harness.sizes import LONG, SEED, SIZES


def pytest_report_header() -> str:
    """Say how to repeat the run."""
    return f"fault tests: NOVA_SCHED_FAULTS_SEED={SEED}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Waits are bounded by the harness; the time limit of a whole test is only its last resort."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(0 if SIZES is LONG else 600))


@pytest.fixture
def make_cloud(
    tmp_path: Path, rabbit: RabbitServer, postgres: PostgresServer
) -> Iterator[Callable[..., Cloud]]:
    """Makes clouds on PostgreSQL and closes them; a test may break either server."""
    made: list[Cloud] = []

    def make(**options: Any) -> Cloud:
        rabbit.repair()
        postgres.start()
        folder = tmp_path / f"cloud{len(made)}"
        cloud = Cloud(
            folder,
            options.pop("broker", rabbit),
            options.pop("url", None) or fresh_database(postgres),
            **options,
        )
        made.append(cloud)
        return cloud

    yield make
    rabbit.repair()
    for cloud in made:
        cloud.close()
