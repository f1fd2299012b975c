"""Options of Juno's time that the libraries have dropped since, so that an old nova.conf starts unedited.

Registered without a place in the sample file. Each one found is either mapped to what took its place, or named once in
the log as having no effect, or refused because the service would otherwise talk to nobody (qpid, ZeroMQ).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from oslo_config import cfg

from nova_sched.conf.types import trimmed
from nova_sched.errors import ConfigurationError

LOG = logging.getLogger(__name__)

RABBIT = "oslo_messaging_rabbit"
NOTIFICATIONS = "oslo_messaging_notifications"

_BROKER = (
    "rabbit_host",
    "rabbit_port",
    "rabbit_hosts",
    "rabbit_userid",
    "rabbit_password",
    "rabbit_virtual_host",
)
_RENAMED = {
    "rabbit_use_ssl": "ssl",
    "kombu_ssl_version": "ssl_version",
    "kombu_ssl_keyfile": "ssl_key_file",
    "kombu_ssl_certfile": "ssl_cert_file",
    "kombu_ssl_ca_certs": "ssl_ca_file",
    "kombu_reconnect_delay": "kombu_reconnect_delay",
    "rabbit_login_method": "rabbit_login_method",
    "rabbit_retry_interval": "rabbit_retry_interval",
    "rabbit_retry_backoff": "rabbit_retry_backoff",
    "rabbit_ha_queues": "rabbit_ha_queues",
    "amqp_auto_delete": "amqp_auto_delete",
}
_IN_KILO = (*_BROKER, *(old for old, modern in _RENAMED.items() if old != modern))
"""Old names that Kilo had in ``[oslo_messaging_rabbit]`` and the library has not any more."""
_WITHOUT_EFFECT = {
    "rpc_conn_pool_size": "connections are one per worker",
    "rpc_thread_pool_size": "each worker decides in one thread",
    "rpc_cast_timeout": "it belonged to ZeroMQ",
    "rabbit_max_retries": "a lost broker is waited for without limit",
    "scheduler_host_manager": "host state lives in one column table",
    "scheduler_manager": "there is one manager",
    "scheduler_json_config_location": "options are read from this file and reloaded on SIGHUP",
    "scheduler_use_baremetal_filters": "name the filters in scheduler_default_filters",
    "baremetal_scheduler_default_filters": "name the filters in scheduler_default_filters",
    "default_publisher_id": "the publisher is scheduler.<host>",
    "verbose": "information is always logged; debug adds more",
}
_BACKENDS = {
    "rabbit": "rabbit",
    "kombu": "rabbit",
    "impl_kombu": "rabbit",
    "fake": "fake",
    "impl_fake": "fake",
}
_NOTIFIERS = {
    "rpc_notifier": "messaging",
    "rabbit_notifier": "messaging",
    "rpc_notifier2": "messagingv2",
    "log_notifier": "log",
    "no_op_notifier": "noop",
    "test_notifier": "noop",
}


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the old options, unset by default, where Juno (``[DEFAULT]``) and Kilo had them."""
    for name in (*_BROKER, "rpc_backend", *_RENAMED, *_WITHOUT_EFFECT):
        conf.register_opt(cfg.StrOpt(name, secret="password" in name))
    conf.register_opt(cfg.MultiStrOpt("notification_driver"))
    conf.register_opt(cfg.ListOpt("notification_topics"))
    for name in _IN_KILO:
        conf.register_opt(cfg.StrOpt(name, secret="password" in name), group=RABBIT)


def apply(conf: cfg.ConfigOpts, say: Callable[[str], None] = LOG.warning) -> None:
    """Give the libraries' options the old ones' values where the file has no new ones.

    :param say: takes one line per old option that was mapped or has no effect.
    :raises ConfigurationError: for transports that no longer exist.
    """
    _apply_broker(conf, say)
    for name, modern in _RENAMED.items():
        value = _found(conf, name)
        if value is not None and _is_default(conf, modern, RABBIT):
            _set_default(conf, name, value, modern, RABBIT)
            say(f"{name}: read as [{RABBIT}] {modern}")
    drivers = _found(conf, "notification_driver")
    if drivers and _is_default(conf, "driver", NOTIFICATIONS):
        conf.set_default("driver", [notifier(name) for name in trimmed(drivers)], group=NOTIFICATIONS)
        say(f"notification_driver: read as [{NOTIFICATIONS}] driver")
    topics = _found(conf, "notification_topics")
    if topics and _is_default(conf, "topics", NOTIFICATIONS):
        conf.set_default("topics", trimmed(topics), group=NOTIFICATIONS)
        say(f"notification_topics: read as [{NOTIFICATIONS}] topics")
    for name, reason in _WITHOUT_EFFECT.items():
        if _found(conf, name) is not None:
            say(f"{name} has no effect: {reason}")


def notifier(name: str) -> str:
    """Today's name of a notification driver; Juno knew dotted paths of modules."""
    return _NOTIFIERS.get(name.rpartition(".")[2], name)


def _apply_broker(conf: cfg.ConfigOpts, say: Callable[[str], None]) -> None:
    given = [name for name in _BROKER if _found(conf, name) is not None]
    backend = (_found(conf, "rpc_backend") or "rabbit").strip()
    scheme = _BACKENDS.get(backend.rpartition(".")[2])
    if not _is_default(conf, "transport_url", None):
        if given:
            say(f"{', '.join(given)}: no effect beside transport_url")
        return
    if scheme is None:
        raise ConfigurationError("rpc_backend", backend, "rabbit or fake, or a transport_url in its place")
    if scheme == "fake":
        conf.set_default("transport_url", "fake://")
        say("rpc_backend: read as transport_url = fake://")
    elif given:
        conf.set_default("transport_url", _transport_url(conf))
        say(f"{', '.join(given)}: read as transport_url")


def _transport_url(conf: cfg.ConfigOpts) -> str:
    """The URL that Juno's separate options mean; their defaults are Juno's."""
    user = quote(_found(conf, "rabbit_userid") or "guest", safe="")
    password = quote(_found(conf, "rabbit_password") or "guest", safe="")
    port = _port(_found(conf, "rabbit_port") or "5672", "rabbit_port")
    servers = trimmed([_found(conf, "rabbit_hosts") or _found(conf, "rabbit_host") or "localhost"])
    hosts = ",".join(f"{user}:{password}@{host}:{number}" for host, number in _addresses(servers, port))
    virtual_host = (_found(conf, "rabbit_virtual_host") or "/").strip()
    return f"rabbit://{hosts}/" + ("" if virtual_host == "/" else quote(virtual_host, safe=""))


def _addresses(servers: list[str], port: int) -> Iterator[tuple[str, int]]:
    for server in servers:
        name, colon, number = server.rpartition(":")
        if server.startswith("[") or not colon or ":" in name:
            bracketed, _, tail = server.partition("]")
            host = f"{bracketed}]" if server.startswith("[") else f"[{server}]" if ":" in server else server
            yield host, _port(tail.removeprefix(":") or str(port), "rabbit_hosts")
        else:
            yield name, _port(number, "rabbit_hosts")


def _port(text: str, option: str) -> int:
    if text.strip().isdigit() and 0 < int(text) < 65_536:
        return int(text)
    raise ConfigurationError(option, text, "a TCP port from 1 to 65535")


def _set_default(conf: cfg.ConfigOpts, old: str, value: str, modern: str, group: str) -> None:
    try:
        conf.set_default(modern, value, group=group)
        _ = conf[group][modern]
    except (ValueError, cfg.ConfigSourceValueError) as error:
        raise ConfigurationError(old, value, f"what [{group}] {modern} takes ({error})") from None


def _found(conf: cfg.ConfigOpts, name: str) -> Any:
    value = conf[name]
    if value is None and name in _IN_KILO:
        value = conf[RABBIT][name]
    return value


def _is_default(conf: cfg.ConfigOpts, name: str, group: str | None) -> bool:
    location = conf.get_location(name, group=group)
    return location is None or location.location in (
        cfg.Locations.opt_default,
        cfg.Locations.set_default,
    )
