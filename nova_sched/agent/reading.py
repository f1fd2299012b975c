"""What an agent reads of a build cast: the guest, and whether the limits of the cast leave room for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova_sched.agent.hypervisor import Guest, Usage
from nova_sched.errors import MalformedMessage
from nova_sched.wire.objects import fields, mapping
from nova_sched.wire.units import gb_to_mb


class MalformedBuild(MalformedMessage):
    """A cast to compute that names no instance or has no readable sizes."""


def guest_of(instance: Any, arguments: Mapping[str, Any], sizes: Any = None) -> Guest:
    """The guest of a cast. ``sizes``: flavor that overrules the instance's own sizes. Raises MalformedBuild.

    The attempt is that of ``attempt_of``.
    """
    given = fields(instance)
    uuid = (given or {}).get("uuid")
    if given is None or not isinstance(uuid, str) or not uuid:
        raise MalformedBuild("the instance has no uuid")
    flavor = fields(sizes) or {}
    filter_properties = fields(arguments.get("filter_properties")) or {}

    def size(name: str) -> int:
        value = flavor[name] if name in flavor else given.get(name)
        if value is None:
            return 0
        if type(value) is not int or value < 0:
            raise MalformedBuild(f"{name} of instance {uuid} must be a whole number, 0 or more")
        return value

    return Guest(
        uuid=uuid,
        attempt=attempt_of(filter_properties),
        vcpus=size("vcpus"),
        memory_mb=size("memory_mb"),
        disk_mb=gb_to_mb(size("root_gb") + size("ephemeral_gb")),
        metadata={key: str(value) for key, value in (mapping(given.get("metadata")) or {}).items()},
        instance=given,
    )


def is_forced(filter_properties: Mapping[str, Any]) -> bool:
    """Whether an administrator chose this host, so that the build is this host's or nobody's."""
    return bool(filter_properties.get("force_hosts") or filter_properties.get("force_nodes"))


def attempt_of(filter_properties: Mapping[str, Any]) -> int:
    """Number of the attempt that a cast stands for: as the scheduler counted it; forced placement is always the first."""
    attempt = (fields(filter_properties.get("retry")) or {}).get("num_attempts", 1)
    if is_forced(filter_properties) or type(attempt) is not int or attempt < 1:
        return 1
    return attempt


def unmet_limits(guest: Guest, usage: Usage, limits: Mapping[str, Any]) -> list[str]:
    """Every limit of the cast that the guest would pass, with its numbers; empty if it fits. No limits: it fits."""
    asked = (
        ("memory_mb", "MB of memory", usage.memory_mb, guest.memory_mb),
        ("vcpu", "vCPUs", usage.vcpus, guest.vcpus),
        ("disk_gb", "GB of disk", usage.disk_gb, -(-guest.disk_mb // 1024)),
    )
    return [
        f"{used} {unit} used, {wanted} asked, limit {limits[key]:g}"
        for key, unit, used, wanted in asked
        if isinstance(limits.get(key), int | float) and used + wanted > limits[key]
    ]
