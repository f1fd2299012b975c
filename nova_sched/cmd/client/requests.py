"""Requests as an API service would send them, from command line options or from a file."""

from __future__ import annotations

import argparse
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nova_sched.cmd.arguments import natural, pairs, positive
from nova_sched.cmd.exits import UsageError


@dataclass(frozen=True, slots=True)
class Order:
    """What is wanted, in the words of a user. ``ram_mb``, ``disk_gb``, ``ephemeral_gb``, ``swap_mb`` per instance."""

    name: str = "instance"
    count: int = 1
    vcpus: int = 1
    ram_mb: int = 512
    disk_gb: int = 1
    ephemeral_gb: int = 0
    swap_mb: int = 0
    flavor: str = "ordered"
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    image_id: str | None = None
    image_properties: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, Any] = field(default_factory=dict)
    availability_zone: str | None = None
    force_hosts: tuple[str, ...] = ()
    force_nodes: tuple[str, ...] = ()
    ignore_hosts: tuple[str, ...] = ()
    project_id: str = "demo"
    user_id: str = "demo"


@dataclass(frozen=True, slots=True)
class NovaRequest:
    """The three parts of a message: context (without prefix), request_spec, filter_properties."""

    context: dict[str, Any]
    request_spec: dict[str, Any]
    filter_properties: dict[str, Any]

    @property
    def uuids(self) -> list[str]:
        """Instances asked for."""
        return list(self.request_spec.get("instance_uuids") or ())


def nova_request(order: Order) -> NovaRequest:
    """The request in Juno's form; each call makes fresh uuids."""
    flavor = {
        "id": 1,
        "flavorid": order.flavor,
        "name": order.flavor,
        "vcpus": order.vcpus,
        "memory_mb": order.ram_mb,
        "root_gb": order.disk_gb,
        "ephemeral_gb": order.ephemeral_gb,
        "swap": order.swap_mb,
        "rxtx_factor": 1.0,
        "vcpu_weight": None,
        "extra_specs": dict(order.extra_specs),
    }
    uuids = [str(uuid.uuid4()) for _ in range(order.count)]
    spec = {
        "instance_type": flavor,
        "instance_properties": _properties(order, uuids[0]),
        "instance_uuids": uuids,
        "num_instances": order.count,
        "image": _image(order),
        "block_device_mapping": [],
        "security_group": ["default"],
    }
    properties: dict[str, Any] = {"instance_type": flavor, "scheduler_hints": dict(order.hints)}
    for name in ("force_hosts", "force_nodes", "ignore_hosts"):
        if getattr(order, name):
            properties[name] = list(getattr(order, name))
    return NovaRequest(context_of(order.user_id, order.project_id), spec, properties)


def context_of(user_id: str = "demo", project_id: str = "demo") -> dict[str, Any]:
    """A request context with a fresh request id and no token."""
    return {
        "user_id": user_id,
        "project_id": project_id,
        "tenant": project_id,
        "user": user_id,
        "is_admin": False,
        "roles": ["member"],
        "request_id": f"req-{uuid.uuid4()}",
        "read_deleted": "no",
        "timestamp": datetime.now(UTC).replace(tzinfo=None).isoformat(),
    }


def add_order_options(parser: argparse.ArgumentParser) -> None:
    """Options that describe instances; :func:`request_from` reads them."""
    parser.add_argument("--count", type=positive, default=1, metavar="N", help="instances (default: 1)")
    parser.add_argument("--vcpus", type=natural, default=1, metavar="N", help="vCPUs of each (default: 1)")
    parser.add_argument(
        "--ram", type=natural, default=512, metavar="MB", help="RAM of each in MB (default: 512)"
    )
    parser.add_argument(
        "--disk", type=natural, default=1, metavar="GB", help="root disk of each in GB (default: 1)"
    )
    parser.add_argument(
        "--ephemeral", type=natural, default=0, metavar="GB", help="ephemeral disk in GB (default: 0)"
    )
    parser.add_argument("--swap", type=natural, default=0, metavar="MB", help="swap in MB (default: 0)")
    parser.add_argument("--flavor", default="ordered", metavar="NAME", help="name of the flavor")
    parser.add_argument(
        "--extra-spec", action="append", default=[], metavar="KEY=VALUE", help="extra spec of the flavor"
    )
    parser.add_argument("--image", metavar="ID", help="image id")
    parser.add_argument(
        "--property",
        "--image-property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="property of the image",
    )
    parser.add_argument(
        "--hint", action="append", default=[], metavar="KEY=VALUE", help="hint; repeat for a list"
    )
    parser.add_argument("--group", metavar="UUID|NAME", help="server group to become a member of")
    parser.add_argument("--availability-zone", "--zone", metavar="NAME", help="zone")
    parser.add_argument(
        "--force-host", action="append", default=[], metavar="HOST", help="take this host, unfiltered"
    )
    parser.add_argument(
        "--force-node", action="append", default=[], metavar="NODE", help="take this node, unfiltered"
    )
    parser.add_argument(
        "--ignore-host", action="append", default=[], metavar="HOST", help="never take this host"
    )
    parser.add_argument("--project", default="demo", metavar="ID", help="project (default: demo)")
    parser.add_argument("--user", default="demo", metavar="ID", help="user (default: demo)")
    parser.add_argument(
        "--file",
        metavar="PATH",
        help="JSON with request_spec, filter_properties and context in Nova's form, in place of the other options",
    )


def request_from(options: argparse.Namespace, name: str = "instance") -> NovaRequest:
    """The request that options describe. Raises UsageError, OSError."""
    if options.file:
        return _read(Path(options.file))
    return nova_request(
        Order(
            name=name,
            count=options.count,
            vcpus=options.vcpus,
            ram_mb=options.ram,
            disk_gb=options.disk,
            ephemeral_gb=options.ephemeral,
            swap_mb=options.swap,
            flavor=options.flavor,
            extra_specs=pairs(options.extra_spec),
            image_id=options.image,
            image_properties=pairs(options.property),
            hints={**_grouped(options.hint), **({"group": options.group} if options.group else {})},
            availability_zone=options.availability_zone,
            force_hosts=tuple(options.force_host),
            force_nodes=tuple(options.force_node),
            ignore_hosts=tuple(options.ignore_host),
            project_id=options.project,
            user_id=options.user,
        )
    )


def _read(path: Path) -> NovaRequest:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("request_spec"), dict):
        raise UsageError(f"{path} has no request_spec")
    context = {**context_of(), **(content.get("context") or {})}
    return NovaRequest(context, content["request_spec"], content.get("filter_properties") or {})


def _properties(order: Order, first_uuid: str) -> dict[str, Any]:
    return {
        "uuid": first_uuid,
        "display_name": order.name,
        "hostname": order.name,
        "project_id": order.project_id,
        "user_id": order.user_id,
        "vcpus": order.vcpus,
        "memory_mb": order.ram_mb,
        "root_gb": order.disk_gb,
        "ephemeral_gb": order.ephemeral_gb,
        "instance_type_id": 1,
        "image_ref": order.image_id or "",
        "os_type": None,
        "availability_zone": order.availability_zone,
        "reservation_id": f"r-{uuid.uuid4().hex[:8]}",
        "launch_index": 0,
        "vm_state": "building",
        "task_state": "scheduling",
        "host": None,
        "node": None,
        "metadata": dict(order.metadata),
        "system_metadata": {},
    }


def _image(order: Order) -> dict[str, Any]:
    return {"id": order.image_id, "properties": dict(order.image_properties), "min_ram": 0, "min_disk": 0}


def _grouped(texts: Iterable[str]) -> dict[str, Any]:
    """One value as it is, several of one key as a list."""
    grouped: dict[str, Any] = {}
    for text in texts:
        for key, value in pairs([text]).items():
            if key not in grouped:
                grouped[key] = value
            elif isinstance(grouped[key], list):
                grouped[key].append(value)
            else:
                grouped[key] = [grouped[key], value]
    return grouped
