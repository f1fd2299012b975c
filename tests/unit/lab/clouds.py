"""Cases made in tests, as an export would have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nova_sched.conf.mapping import settings_from_mapping
from nova_sched.lab.case import Case, parse
from nova_sched.lab.scene import Scene

NOW = "2026-12-01T12:00:00.000000"


def host(name: str, **columns: Any) -> dict[str, Any]:
    """An empty host of 16 vCPUs, 32 GB RAM and 500 GB disk that has just reported."""
    row = {
        "host": name,
        "hypervisor_hostname": f"{name}.lab",
        "vcpus": 16,
        "memory_mb": 32768,
        "local_gb": 500,
        "vcpus_used": 0,
        "free_ram_mb": 32768,
        "free_disk_gb": 500,
        "local_gb_used": 0,
        "stats": None,
        "updated_at": None,
        "service": {"host": name, "disabled": False, "updated_at": NOW},
    }
    return {**row, **columns}


def case(hosts: Iterable[Mapping[str, Any]], config: Mapping[str, Any] | None = None, **given: Any) -> Case:
    """A case of these hosts."""
    return parse(
        {"input": {"now": NOW, "config": config or {}, "hosts": list(hosts), "requests": [], **given}}
    )


def scene(hosts: Iterable[Mapping[str, Any]], config: Mapping[str, Any] | None = None, **given: Any) -> Scene:
    """Such a case under its own configuration."""
    made = case(hosts, config, **given)
    return Scene(made, settings_from_mapping(made.config))
