"""What we touch of oslo.messaging beside its public names is still there; read this first when a release breaks us."""

from __future__ import annotations

import importlib
import importlib.util

import pytest
from kombu.utils.url import parse_url
from oslo_config import cfg

from nova_sched.rpc import transport as transports
from nova_sched.rpc.bus.driver import PRIVATE_NAMES, rabbit_driver


@pytest.mark.parametrize("name", PRIVATE_NAMES)
def test_a_private_name_is_where_it_was(name: str) -> None:
    """As an attribute of its class, or of the driver that a transport is built on."""
    parts = name.split(".")
    depth = next(at for at in range(len(parts), 0, -1) if _is_module(".".join(parts[:at])))
    found = importlib.import_module(".".join(parts[:depth]))
    for step in parts[depth:]:
        found = getattr(found, step) if hasattr(found, step) else _of_an_instance(step)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _of_an_instance(attribute: str) -> object:
    transport = transports.get_transport(_conf(), "rabbit://u:p@127.0.0.1:1/v")
    driver = rabbit_driver(transport)
    assert driver is not None
    owner = next(one for one in (driver, driver._connection_pool, transport) if hasattr(one, attribute))
    return getattr(owner, attribute)


def _conf() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    transports.register_options(conf)
    conf([], project="test", default_config_files=[], default_config_dirs=[])
    return conf


def test_any_password_makes_a_url_that_kombu_reads_back() -> None:
    """LP#1675423: slashes, at signs and percent signs; the library's own form leaves slashes as they are."""
    conf = cfg.ConfigOpts()
    transports.register_options(conf)
    conf([], project="test", default_config_files=[], default_config_dirs=[])
    driver = rabbit_driver(
        transports.get_transport(conf, "rabbit://us%2Fer:p%40ss%2Fw%25rd@127.0.0.1:1/%2Fnova")
    )
    assert driver is not None
    connection = driver._connection_pool.connection_cls
    url = connection._transform_transport_url(None, driver._url, driver._url.hosts[0])
    read = parse_url(url)
    assert (read["userid"], read["password"], read["virtual_host"]) == ("us/er", "p@ss/w%rd", "/nova")
