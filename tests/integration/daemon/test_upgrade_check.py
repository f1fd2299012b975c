"""``nova-sched-status upgrade check`` on a real broker: what would refuse the start is a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from nova_sched.cmd import status
from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.rpc import transport as transports
from nova_sched.rpc.bus.driver import rabbit_driver
from nova_sched.rpc.bus.link import Link
from nova_sched.rpc.bus.topology import ExchangeDeclaration
from nova_sched.settings import DatabaseSettings
from tests.integration.rpc.conftest import make_conf


@pytest.fixture
def config(tmp_path: Path, transport_url: str) -> Path:
    """A configuration with an up-to-date database."""
    connection = f"sqlite:///{tmp_path}/sched.sqlite"
    database = Database(DatabaseSettings(connection=connection))
    schema.sync(database)
    database.close()
    path = tmp_path / "nova-sched.conf"
    path.write_text(f"[DEFAULT]\ntransport_url = {transport_url}\n[database]\nconnection = {connection}\n")
    return path


def check(config: Path) -> int:
    return status.main(["--config-file", str(config), "upgrade", "check"])


def test_an_exchange_with_other_properties_fails_the_check(
    config: Path, transport_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before and after somebody makes a transient exchange where a durable one is wanted."""
    assert check(config) < 2
    driver = rabbit_driver(transports.get_transport(make_conf(), transport_url))
    assert driver is not None
    link = Link(driver.link_settings, "test")
    link.open()
    ExchangeDeclaration("nova", durable=False).declare(link.channel)
    link.farewell()
    assert check(config) == 2
    assert "exists in the broker with" in " ".join(capsys.readouterr().out.split())


def test_a_broker_that_is_away_is_a_warning(config: Path) -> None:
    """It may well be stopped for the upgrade."""
    config.write_text(
        config.read_text().replace("transport_url = ", "transport_url = rabbit://127.0.0.1:1/\n#")
    )
    assert check(config) == 1
