"""From the arguments of an RPC method to one frozen :class:`~nova_sched.model.request.SchedulingRequest`.

Two ways to be wrong. A message from which no instance can be named (no request_spec, no uuid that could be one) raises
:class:`~nova_sched.errors.MalformedMessage`: there is nobody to set to ERROR, so the message itself is put aside. Any
other mistake (amounts, types, sizes, exhausted retries) is kept as ``request.error`` beside the instances it names, so
that each of them ends in ERROR with that reason. Nothing else is ever raised, and the message is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nova_sched.errors import MalformedMessage
from nova_sched.model.request import (
    EMPTY,
    Amounts,
    Caller,
    Flavor,
    Image,
    InstanceRef,
    Passthrough,
    SchedulingRequest,
)
from nova_sched.model.secrets import secrets_in, secrets_of_context
from nova_sched.model.states import BUILDING, IO_HEAVY_TASK_STATES
from nova_sched.settings import Settings
from nova_sched.wire import retry, validate
from nova_sched.wire.context import caller
from nova_sched.wire.objects import fields, image_properties, mapping
from nova_sched.wire.topology import instance_topology, pci_requests
from nova_sched.wire.units import gb_to_mb
from nova_sched.wire.validate import Refused, amount, text

#: A request above ``max_instances_per_request`` is refused per instance up to this number, as a whole message above.
REFUSED_INSTANCES_MAX = 10_000
NAMES_MAX = 10_000
HINTS_MAX = 256
HINT_VALUES_MAX = 10_000
HINT_TEXT_MAX = 65_535

_UUID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.:-]{0,35}")


def run_instance(
    context: Mapping[str, Any], args: Mapping[str, Any], settings: Settings
) -> SchedulingRequest:
    """Request of a ``run_instance`` cast; retries are counted here. Raises MalformedMessage."""
    return _translate("run_instance", context, args, settings)


def select_destinations(
    context: Mapping[str, Any], args: Mapping[str, Any], settings: Settings
) -> SchedulingRequest:
    """Request of a ``select_destinations`` call; retry data travels untouched (case 323). Raises MalformedMessage."""
    return _translate("select_destinations", context, args, settings)


def prep_resize(context: Mapping[str, Any], args: Mapping[str, Any], settings: Settings) -> SchedulingRequest:
    """Request of a ``prep_resize`` cast for the one ``instance``. Raises MalformedMessage.

    Amounts are those of the new flavor: that is what the chosen host will have to hold.
    """
    return _translate("prep_resize", context, args, settings)


def explain(context: Mapping[str, Any], args: Mapping[str, Any], settings: Settings) -> SchedulingRequest:
    """Request of an ``explain`` call: as select_destinations, nothing is claimed. Raises MalformedMessage."""
    return _translate("explain", context, args, settings)


def of(
    method: str, context: Mapping[str, Any], args: Mapping[str, Any], settings: Settings
) -> SchedulingRequest:
    """The request of the method of that name, for readers of recorded requests. Raises MalformedMessage."""
    if method not in ("run_instance", "select_destinations", "prep_resize", "explain"):
        raise MalformedMessage(f"no scheduling method {method!r}")
    return _translate(method, context, args, settings)


def _translate(
    method: str, context: Mapping[str, Any], args: Mapping[str, Any], settings: Settings
) -> SchedulingRequest:
    if not isinstance(args, dict):
        raise MalformedMessage(f"{method}: arguments must be an object, not {type(args).__name__}")
    who = caller(context)
    try:
        instances, mistake = _instances(method, args, settings)
        found = mistake or validate.insane(args) or validate.fault(_schema(method), args)
        if found is None:
            return _request(method, who, args, instances, settings)
    except Refused as refusal:
        found = str(refusal)
    return _refused(method, who, args, instances, found, settings)


def _schema(method: str) -> str:
    return "select_destinations" if method == "explain" else method


def _instances(
    method: str, args: Mapping[str, Any], settings: Settings
) -> tuple[tuple[InstanceRef, ...], str | None]:
    """Who is asked for, in order and once each, and what is wrong with that list. Raises MalformedMessage."""
    if method == "prep_resize":
        instance = fields(args.get("instance")) or EMPTY
        if not _is_uuid(instance.get("uuid")):
            raise MalformedMessage("prep_resize: instance has no uuid")
        return (InstanceRef(instance["uuid"], 0),), None
    spec = fields(args.get("request_spec"))
    if spec is None:
        raise MalformedMessage(f"{method}: request_spec must be an object")
    given = spec.get("instance_uuids")
    most = settings.delivery.max_instances_per_request
    if given is not None and not isinstance(given, list | tuple):
        raise MalformedMessage(f"{method}: instance_uuids must be a list")
    if not given:
        return _unnamed_instances(method, spec, most)
    if len(given) > max(most, REFUSED_INSTANCES_MAX):
        raise MalformedMessage(f"{method}: {len(given)} instances in one request, at most {most} are served")
    usable = list(dict.fromkeys(uuid for uuid in given if _is_uuid(uuid)))
    if not usable:
        raise MalformedMessage(f"{method}: none of the instance_uuids is one")
    instances = tuple(InstanceRef(uuid, index) for index, uuid in enumerate(usable))
    if len(given) > most:
        return instances, f"{len(given)} instances in one request, at most {most} are served"
    if not all(_is_uuid(uuid) for uuid in given):
        return instances, "instance_uuids: every entry must be a uuid"
    return instances, None


def _unnamed_instances(
    method: str, spec: Mapping[str, Any], most: int
) -> tuple[tuple[InstanceRef, ...], str | None]:
    try:
        count = amount("num_instances", spec.get("num_instances", 0 if method == "run_instance" else 1))
    except Refused as refusal:
        raise MalformedMessage(f"{method}: {refusal}") from None
    if method == "run_instance" and count:
        raise MalformedMessage("run_instance: no instance_uuids, so there is nothing that could be built")
    if count > most:
        return (InstanceRef(None, 0),), f"{count} instances in one request, at most {most} are served"
    return tuple(InstanceRef(None, index) for index in range(count)), None


def _is_uuid(value: Any) -> bool:
    return type(value) is str and _UUID.fullmatch(value) is not None


def _request(
    method: str,
    who: Caller,
    args: Mapping[str, Any],
    instances: tuple[InstanceRef, ...],
    settings: Settings,
) -> SchedulingRequest:
    """The request of a message whose shape is right. Raises Refused."""
    spec = fields(args.get("request_spec")) or EMPTY
    given = fields(args.get("filter_properties")) or EMPTY
    properties = fields(spec.get("instance_properties")) or EMPTY
    resize = method == "prep_resize"
    new_flavor = (fields(args.get("instance_type")) if resize else None) or EMPTY
    flavor = _flavor(fields(spec.get("instance_type")) or new_flavor, properties)
    force_hosts = _names("force_hosts", given.get("force_hosts"))
    force_nodes = _names("force_nodes", given.get("force_nodes"))
    forced = force_hosts is not None or force_nodes is not None
    retry_data = fields(given.get("retry")) or EMPTY
    attempts = retry.count(method, retry_data, forced, settings.scheduler.max_attempts)
    hints = _hints(given.get("scheduler_hints"))
    group_hosts = _names("group_hosts", given.get("group_hosts"))
    return SchedulingRequest(
        method=method,
        caller=who,
        instances=instances,
        flavor=flavor,
        amounts=_amounts(EMPTY if resize else properties, flavor),
        image=_image(spec.get("image"), properties),
        project_id=text("project_id", properties.get("project_id")) or who.project_id,
        user_id=text("user_id", properties.get("user_id")) or who.user_id,
        os_type=text("os_type", properties.get("os_type")),
        availability_zone=text("availability_zone", properties.get("availability_zone")),
        instance_type_id=flavor.id,
        attempt=attempts.attempt,
        retry=attempts.retry,
        tried=attempts.tried,
        hints=hints,
        group=_group(hints.get("group")),
        legacy_group_hosts=None if given.get("group_hosts") is None else tuple(sorted(group_hosts or ())),
        legacy_group_policies=tuple(sorted(_names("group_policies", given.get("group_policies")) or ())),
        force_hosts=force_hosts,
        force_nodes=force_nodes,
        ignore_hosts=_names("ignore_hosts", given.get("ignore_hosts")),
        numa=instance_topology(properties.get("numa_topology")),
        pci_requests=pci_requests(given.get("pci_requests")),
        error=retry.exceeded(
            retry_data,
            settings.scheduler.max_attempts,
            instances,
            secrets_in(args) | secrets_of_context(who.wire),
        )
        if attempts.exceeded
        else None,
        passthrough=_passthrough(method, args, instances),
    )


def _refused(
    method: str,
    who: Caller,
    args: Mapping[str, Any],
    instances: tuple[InstanceRef, ...],
    reason: str,
    settings: Settings,
) -> SchedulingRequest:
    """The request that only says who is asked for and what is wrong; all it carries can be stored and sent."""
    safe = validate.scrubbed(args)
    data = fields((fields(safe.get("filter_properties")) or EMPTY).get("retry")) or EMPTY
    try:
        attempt = retry.count(method, data, False, settings.scheduler.max_attempts).attempt
    except Refused:
        attempt = 1
    return SchedulingRequest(
        method=method,
        caller=who,
        instances=instances,
        project_id=who.project_id,
        user_id=who.user_id,
        attempt=attempt,
        error=f"Invalid request: {reason}",
        passthrough=_passthrough(method, safe, instances),
    )


def _passthrough(method: str, args: Mapping[str, Any], instances: tuple[InstanceRef, ...]) -> Passthrough:
    """What goes on to compute; the spec gets its list of uuids and its plain instance_properties back."""
    spec = dict(fields(args.get("request_spec")) or EMPTY)
    properties = fields(spec.get("instance_properties"))
    if properties is not spec.get("instance_properties"):
        spec["instance_properties"] = properties or {}
    if spec.get("instance_uuids") or method == "run_instance":
        spec["instance_uuids"] = [instance.uuid for instance in instances if instance.uuid is not None]
    return Passthrough(
        request_spec=spec,
        filter_properties=fields(args.get("filter_properties")) or EMPTY,
        arguments={
            key: value for key, value in args.items() if key not in ("request_spec", "filter_properties")
        },
    )


def _flavor(flavor: Mapping[str, Any], properties: Mapping[str, Any]) -> Flavor:
    """Sizes of ``instance_type``; what it lacks comes from ``instance_properties`` (case 037)."""

    def size(name: str) -> int:
        return amount(name, flavor[name] if name in flavor else properties.get(name))

    flavor_id = flavor["id"] if "id" in flavor else properties.get("instance_type_id")
    flavorid = flavor.get("flavorid")
    return Flavor(
        id=None if flavor_id is None else amount("instance_type id", flavor_id, most=validate.INTEGER_MAX),
        flavorid=text("flavorid", str(flavorid) if isinstance(flavorid, int) else flavorid),
        name=text("instance_type name", flavor.get("name")),
        vcpus=size("vcpus"),
        memory_mb=size("memory_mb"),
        root_gb=size("root_gb"),
        ephemeral_gb=size("ephemeral_gb"),
        swap_mb=amount("swap", flavor.get("swap") or 0),
        extra_specs=_extra_specs(flavor.get("extra_specs")),
    )


def _extra_specs(value: Any) -> Mapping[str, str]:
    """Extra specs as text; missing, null and empty ask for nothing."""
    if not value:
        return EMPTY
    specs = mapping(value)
    if specs is None:
        raise Refused("extra_specs: expected an object")
    return {
        key: item if isinstance(item, str) else str(item) for key, item in specs.items() if item is not None
    }


def _amounts(properties: Mapping[str, Any], flavor: Flavor) -> Amounts:
    """What the guest takes, by ``instance_properties``; the flavor fills what they lack. Swap is not consumed."""

    def size(name: str, otherwise: int) -> int:
        given = properties.get(name)
        return otherwise if given is None else amount(name, given)

    disk_gb = size("root_gb", flavor.root_gb) + size("ephemeral_gb", flavor.ephemeral_gb)
    return Amounts(
        vcpus=size("vcpus", flavor.vcpus),
        memory_mb=size("memory_mb", flavor.memory_mb),
        disk_mb=gb_to_mb(disk_gb),
        io_ops=int(_loads_disks(properties)),
    )


def _loads_disks(properties: Mapping[str, Any]) -> bool:
    """Whether the guest counts as an I/O-heavy operation of its host: being built, or moved or copied (case 053)."""
    task = properties.get("task_state")
    return properties.get("vm_state", BUILDING) == BUILDING or (
        isinstance(task, str) and task in IO_HEAVY_TASK_STATES
    )


def _image(value: Any, properties: Mapping[str, Any]) -> Image:
    """Image reference and properties; boots from volume have neither."""
    image = fields(value) or EMPTY
    given = image.get("properties")
    found = image_properties(given) if given else EMPTY
    if found is None:
        raise Refused("image properties: expected an object")
    image_id = text("image_ref", properties.get("image_ref")) or text("image id", image.get("id"))
    return Image(image_id, found)


def _hints(value: Any) -> Mapping[str, Any]:
    """Scheduler hints with lists as tuples, doubles of texts left out; null, missing and empty are no hints."""
    if not value:
        return EMPTY
    hints = fields(value)
    if hints is None:
        raise Refused("scheduler_hints: expected an object")
    if len(hints) > HINTS_MAX:
        raise Refused(f"scheduler_hints: more than {HINTS_MAX} hints")
    return {text("scheduler_hints", key) or "": _hint(key, item) for key, item in hints.items()}


def _hint(name: str, value: Any) -> Any:
    if isinstance(value, str) and len(value) > HINT_TEXT_MAX:
        raise Refused(f"scheduler_hints {name[:64]}: longer than {HINT_TEXT_MAX} characters")
    if isinstance(value, list | tuple):
        if len(value) > HINT_VALUES_MAX:
            raise Refused(f"scheduler_hints {name[:64]}: more than {HINT_VALUES_MAX} values")
        # A query is an expression: its words are no set.
        if name != "query" and all(isinstance(item, str) for item in value):
            return tuple(dict.fromkeys(value))
        return tuple(value)
    return value


def _group(value: Any) -> str | None:
    """Server group by uuid or name; API services of later releases send a list of one."""
    if isinstance(value, tuple):
        if len(value) > 1:
            raise Refused("scheduler_hints group: more than one group")
        value = value[0] if value else None
    return text("scheduler_hints group", value)


def _names(name: str, value: Any) -> frozenset[str] | None:
    """Names of a list; a plain text is one name, an empty list is as none. Raises Refused."""
    if not value and value != 0:
        return None
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, list | tuple):
        raise Refused(f"{name}: expected a list of names")
    if len(value) > NAMES_MAX:
        raise Refused(f"{name}: more than {NAMES_MAX} names")
    names = frozenset(text(name, item) for item in value)
    if None in names:
        raise Refused(f"{name}: every entry must be a name")
    return names  # type: ignore[return-value]
