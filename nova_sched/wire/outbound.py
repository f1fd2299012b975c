"""From outcomes to messages: the cast to compute, the notifications, the answer of select_destinations.

Nothing is copied that need not be: bodies share the received dictionaries and differ in the few keys that are one
instance's own. The received message is never changed. Times are parameters.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from nova_sched.model import states
from nova_sched.model.decision import Placement
from nova_sched.model.facts import GroupFact
from nova_sched.model.limits import Limits
from nova_sched.model.messages import Cast, Event
from nova_sched.model.request import InstanceRef, SchedulingRequest
from nova_sched.settings import BusSettings
from nova_sched.wire import events
from nova_sched.wire.context import event_context
from nova_sched.wire.objects import fields
from nova_sched.wire.rows import instance_row
from nova_sched.wire.topology import instance_topology_text, limits_topology_text
from nova_sched.wire.versions import compute_version

#: Root of the name-based message ids: the same outcome told twice carries the same id.
MESSAGE_IDS = uuid.UUID("5f0c1d5e-6f3b-5a62-9d53-0c2a6f6f2f5b")
_IDS_BEGIN = MESSAGE_IDS.bytes

#: An absurd request ends in an event per instance: each with the names of all would be gigabytes in the outbox.
NAMED_MAX = 1000

_POLICIES_OF_JUNO = frozenset({"affinity", "anti-affinity", "legacy"})
_NOT_SENT = frozenset({"context", "request_spec", "config_options", "limits", "retry"})


class Outbound:
    """Makes the messages of requests; one per process. Implements ``service.ports.Messages``."""

    def __init__(self, settings: BusSettings) -> None:
        self.settings = settings
        self.publisher_id = f"scheduler.{settings.host}"
        self.build_version = compute_version("run_instance", settings.compute_version_cap)

    def of(self, request: SchedulingRequest) -> RequestMessages:
        """Messages of this request; ask once and keep it, shared parts are built on first use."""
        return RequestMessages(self, request)

    def terminate(self, host: str, instance_uuid: str, context: Mapping[str, Any]) -> Cast:
        """The cast that tells an agent to end the guest of a deleted instance."""
        return Cast(
            message_id=message_id(instance_uuid, 0, f"terminate_instance {host}"),
            topic=self.settings.compute_topic,
            server=host,
            method="terminate_instance",
            version="3.0",
            arguments={"instance": {"uuid": instance_uuid}, "bdms": [], "reservations": None},
            context=context,
        )


class RequestMessages:
    """Every message of one request. ``now`` is an aware UTC time (a naive one is taken as UTC)."""

    def __init__(self, outbound: Outbound, request: SchedulingRequest) -> None:
        self._outbound = outbound
        self._request = request

    def start(self, now: datetime) -> Event:
        """``scheduler.<method>.start``, naming all uuids of the message."""
        return self._phase("start", now)

    def end(self, now: datetime) -> Event:
        """``scheduler.<method>.end``, naming all uuids of the message (Juno named the last one only)."""
        return self._phase("end", now)

    def scheduled(self, placement: Placement, now: datetime) -> Event:
        """``scheduler.run_instance.scheduled`` of one instance and its host."""
        payload = {
            "request_spec": self._spec_of(self._public_spec, placement),
            "weighted_host": {"host": placement.host, "weight": placement.weight},
            "instance_id": placement.instance.uuid,
        }
        event_type = f"scheduler.{self._request.method}.scheduled"
        return self._event(event_type, "INFO", payload, placement.instance.uuid, now)

    def error(self, instance: InstanceRef, reason: str, now: datetime, vm_state: str | None = None) -> Event:
        """ERROR event ``scheduler.<method>`` of one instance; ``reason`` is told as text, never empty.

        It names all uuids of the message up to ``NAMED_MAX``, beyond that its own.
        """
        method, spec = self._request.method, self._public_spec
        state = self.refused_vm_state() if vm_state is None else vm_state
        if len(spec.get("instance_uuids") or ()) > NAMED_MAX:
            spec = {**spec, "instance_uuids": [instance.uuid]}
        payload = events.error_payload(method, spec, instance.uuid, state, reason)
        return self._event(f"scheduler.{method}", "ERROR", payload, instance.uuid, now)

    def update(self, instance: InstanceRef, vm_state: str, now: datetime) -> Event | None:
        """``compute.instance.update`` as ``notify_on_state_change`` asks for it; None where it does not."""
        wanted = self._outbound.settings.notify_on_state_change
        before = self._public_instance
        changed = before.get("vm_state") != vm_state
        if wanted == "vm_and_task_state":
            changed = changed or before.get("task_state") is not None
        if not (wanted and changed):
            return None
        payload = events.update_payload(before, instance.uuid, vm_state, _utc(now))
        return self._event("compute.instance.update", "INFO", payload, instance.uuid, now)

    def refused_vm_state(self) -> str:
        """State of an instance after NoValidHost: error; a resize leaves it as it was (active if unsaid)."""
        if self._request.method != "prep_resize":
            return states.ERROR
        given = (fields(self._request.passthrough.arguments.get("instance")) or {}).get("vm_state")
        return given if isinstance(given, str) and given else states.ACTIVE

    def cast(
        self,
        placement: Placement,
        now: datetime,
        expiration_seconds: float | None = None,
        group: GroupFact | None = None,
    ) -> Cast:
        """The cast to the chosen host's compute: ``run_instance``, or ``prep_resize`` for a resize.

        ``group``: the server group with this request's placements in it. Same instance, attempt and host: same body
        and ``message_id`` but for ``scheduled_at``.
        """
        filter_properties = self.filter_properties(placement, group)
        if self._request.method == "prep_resize":
            version, arguments = "3.0", self._resize_arguments(placement, filter_properties)
        else:
            version, arguments = (
                self._outbound.build_version,
                self._build_arguments(placement, filter_properties, now),
            )
        settings = self._outbound.settings
        return Cast(
            message_id=self._message_id(
                placement.instance.uuid, f"compute {placement.host} {placement.node}"
            ),
            topic=settings.compute_topic,
            server=placement.host,
            method=self._request.method,
            version=version,
            arguments=arguments,
            context=self._request.caller.wire,
            expiration_seconds=expiration_seconds,
        )

    def filter_properties(self, placement: Placement, group: GroupFact | None = None) -> dict[str, Any]:
        """``filter_properties`` of one instance's cast: a fresh retry and limits over what was received."""
        request = self._request
        built = {**self._shared_filter_properties, **self._group_properties(group)}
        if request.retry is not None:
            built["retry"] = self._retry(placement)
        elif "retry" in (received := request.passthrough.filter_properties):
            built["retry"] = received["retry"]
        limits = sent_limits(request, placement.limits)
        if limits is not None:
            built["limits"] = limits
        return built

    def destinations(self, placements: Sequence[Placement]) -> list[dict[str, Any]]:
        """Answer of select_destinations: one ``{host, nodename, limits}`` per instance, in their order."""
        forced_limits: dict[str, Any] | None = {} if self._request.forced else None
        return [
            {
                "host": placement.host,
                "nodename": placement.node,
                "limits": forced_limits if placement.limits is None else wire_limits(placement.limits),
            }
            for placement in placements
        ]

    def _build_arguments(
        self, placement: Placement, filter_properties: Mapping[str, Any], now: datetime
    ) -> dict[str, Any]:
        arguments = self._request.passthrough.arguments
        spec = self._spec_of(self._request.passthrough.request_spec, placement)
        moment = _utc(now).isoformat(timespec="microseconds")
        return {
            "instance": instance_row(spec["instance_properties"], placement.instance.uuid, moment),
            "request_spec": spec,
            "filter_properties": filter_properties,
            "requested_networks": arguments.get("requested_networks"),
            "injected_files": arguments.get("injected_files"),
            "admin_password": arguments.get("admin_password"),
            "is_first_time": arguments.get("is_first_time"),
            "node": placement.node,
            "legacy_bdm_in_spec": arguments.get("legacy_bdm_in_spec"),
        }

    def _own_launch_index(self, placement: Placement) -> int:
        """Index of the instance within its boot: a lone one that comes again keeps that of its first request."""
        spec = self._request.passthrough.request_spec
        given = (spec.get("instance_properties") or {}).get("launch_index")
        if type(given) is int and given >= 0 and len(spec.get("instance_uuids") or ()) == 1:
            return given
        return placement.instance.launch_index

    def _resize_arguments(self, placement: Placement, filter_properties: Mapping[str, Any]) -> dict[str, Any]:
        arguments = self._request.passthrough.arguments
        return {
            "image": arguments.get("image"),
            "instance": arguments.get("instance"),
            "instance_type": arguments.get("instance_type"),
            "reservations": arguments.get("reservations"),
            "request_spec": self._request.passthrough.request_spec,
            "filter_properties": filter_properties,
            "node": placement.node,
        }

    @cached_property
    def _shared_filter_properties(self) -> Mapping[str, Any]:
        request = self._request
        received = request.passthrough.filter_properties
        shared = {key: value for key, value in received.items() if key not in _NOT_SENT}
        shared["project_id"] = request.project_id
        shared["os_type"] = request.os_type
        shared["instance_type"] = request.passthrough.request_spec.get("instance_type")
        return shared

    def _group_properties(self, group: GroupFact | None) -> dict[str, Any]:
        """Hosts and policies of the server group as Juno adds them, for policies that it knows."""
        if group is None or not group.policies & _POLICIES_OF_JUNO:
            return {}
        hosts = group.hosts.union(self._request.legacy_group_hosts or ())
        return {"group_hosts": sorted(hosts), "group_policies": sorted(group.policies)}

    def _retry(self, placement: Placement) -> dict[str, Any]:
        """Retry data of one instance; what was tried before belongs to the first of several only (case 078)."""
        retry = self._request.retry
        assert retry is not None
        before = retry.hosts if placement.instance.launch_index == 0 else ()
        hosts = [[host, node] for host, node in before]
        return {
            **retry.extras,
            "num_attempts": retry.num_attempts,
            "hosts": [*hosts, [placement.host, placement.node]],
        }

    def _spec_of(self, spec: Mapping[str, Any], placement: Placement) -> dict[str, Any]:
        """A request_spec that names one instance, with the NUMA cells of its own host (case 293)."""
        instance = placement.instance
        properties = {
            **(spec.get("instance_properties") or {}),
            "launch_index": self._own_launch_index(placement),
        }
        if placement.numa_fit is not None:
            properties["numa_topology"] = instance_topology_text(placement.numa_fit)
        uuids = [] if instance.uuid is None else [instance.uuid]
        return {**spec, "instance_properties": properties, "instance_uuids": uuids}

    def _phase(self, phase: str, now: datetime) -> Event:
        payload = {"request_spec": self._public_spec}
        return self._event(f"scheduler.{self._request.method}.{phase}", "INFO", payload, None, now)

    def _event(
        self,
        event_type: str,
        priority: str,
        payload: Mapping[str, Any],
        instance_uuid: str | None,
        now: datetime,
    ) -> Event:
        return Event(
            message_id=self._message_id(instance_uuid, event_type),
            publisher_id=self._outbound.publisher_id,
            event_type=event_type,
            priority=priority,
            payload=payload,
            timestamp=_utc(now).isoformat(sep=" ", timespec="microseconds"),
            context=self._event_context,
        )

    @cached_property
    def _public_spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = events.public(self._request.passthrough.request_spec)
        return spec

    @cached_property
    def _public_instance(self) -> Mapping[str, Any]:
        """The instance as the message describes it, without secrets."""
        given = fields(self._request.passthrough.arguments.get("instance"))
        properties = events.public(given) if given else self._public_spec.get("instance_properties")
        return fields(properties) or {}

    @cached_property
    def _event_context(self) -> Mapping[str, Any]:
        return event_context(self._request.caller)

    def _message_id(self, instance_uuid: str | None, what: str) -> str:
        return message_id(instance_uuid or self._request_key, self._request.attempt, what)

    @cached_property
    def _request_key(self) -> str:
        """Name of the request itself: its id and uuids; without either, the digest of what it asks."""
        spec = self._request.passthrough.request_spec
        uuids = ",".join(spec.get("instance_uuids") or self._request.uuids)
        if uuids:
            return f"{self._request.caller.request_id}/{uuids}"
        asked = json.dumps([spec, self._request.passthrough.filter_properties], sort_keys=True, default=str)
        return f"{self._request.caller.request_id}/{hashlib.sha256(asked.encode()).hexdigest()}"


def message_id(key: str, attempt: int, what: str) -> str:
    """Id of a message, the same for the same key, attempt and kind of message: ``uuid5``, without its object.

    Four of these are made for each request, and ``uuid.uuid5`` takes three times as long.
    """
    named = _IDS_BEGIN + f"{key} {attempt} {what}".encode()
    digest = bytearray(hashlib.sha1(named, usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def sent_limits(request: SchedulingRequest, limits: Limits | None) -> dict[str, Any] | None:
    """``limits`` of a cast: none for forced hosts, empty for forced nodes (cases 083 and 087), none by chance."""
    if request.force_hosts is not None:
        return None
    if request.force_nodes is not None:
        return {}
    return None if limits is None else wire_limits(limits)


def wire_limits(limits: Limits) -> dict[str, Any]:
    """Limits by Juno's names; disk in GB. What only guards the claim does not travel."""
    sent: dict[str, Any] = {}
    if limits.memory_mb is not None:
        sent["memory_mb"] = limits.memory_mb
    if limits.vcpu is not None:
        sent["vcpu"] = limits.vcpu
    if limits.disk_gb is not None:
        sent["disk_gb"] = limits.disk_gb
    if limits.numa is not None:
        sent["numa_topology"] = limits_topology_text(limits.numa)
    return sent


def _utc(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(tzinfo=None) if now.tzinfo is not None else now
