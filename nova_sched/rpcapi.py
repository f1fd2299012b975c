"""Clients of the scheduler's topics: for API services, agents and the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nova_sched.errors import ConfigurationError
from nova_sched.rpc.client import RpcClient
from nova_sched.settings import BusSettings

SCHEDULER_ALIASES = {"icehouse": "3.0", "icehouse-compat": "3.0", "juno": "3.0"}
"""Release names of ``[upgrade_levels] scheduler``: what the schedulers of those releases take."""

_NUMBER = re.compile(r"^(\d{1,4})\.(\d{1,4})$")
Context = Mapping[str, Any]


def scheduler_cap(cap: str | None) -> str | None:
    """Version number of a cap: a number, a release, or ``auto`` and None for no cap.

    :raises ConfigurationError: unknown, or below 3.0, which this client does not speak.
    """
    if cap is None or cap == "auto":
        return None
    number = SCHEDULER_ALIASES.get(cap, cap)
    found = _NUMBER.match(number)
    if not found or found.group(1) != "3":
        expected = f"auto, {', '.join(sorted(SCHEDULER_ALIASES))}, or a version 3.N"
        raise ConfigurationError("upgrade_levels.scheduler", cap, expected)
    return number


class SchedulerAPI:
    """Client of the topic ``scheduler``.

    Version history of the API (no namespace), as in Nova::

        3.0  run_instance, prep_resize, select_destinations as Icehouse left them; what came before was removed.

    Namespace ``baseapi``::

        1.0  ping.

    Namespace ``nova_sched``, ours::

        1.0  explain, get_instance, delete_instance, get_hosts.

    Casts return when the broker has queued them; their outcome is in the instance's state and the notifications. A
    client may send the same ``run_instance`` again at any time: a known attempt is never decided twice.

    :param timeout_seconds: of calls; ``select_destinations`` of many instances may want more.
    """

    VERSION = "3.0"

    def __init__(
        self,
        transport: Any,
        settings: BusSettings | None = None,
        timeout_seconds: float = 60.0,
        retry: int = 3,
    ) -> None:
        settings = settings or BusSettings()
        topic, cap = settings.scheduler_topic, scheduler_cap(settings.scheduler_version_cap)
        common: dict[str, Any] = {"timeout_seconds": timeout_seconds, "retry": retry}
        self._scheduler = RpcClient(transport, topic, self.VERSION, cap=cap, **common)
        self._base = RpcClient(transport, topic, "1.0", namespace="baseapi", **common)
        self._own = RpcClient(transport, topic, "1.0", namespace="nova_sched", **common)

    def run_instance(
        self,
        context: Context,
        request_spec: Mapping[str, Any],
        admin_password: str | None,
        injected_files: Sequence[Any] | None,
        requested_networks: Any,
        is_first_time: bool,
        filter_properties: Mapping[str, Any],
        legacy_bdm_in_spec: bool = True,
    ) -> None:
        """Cast 3.0: pick a host for every instance and have them built. Raises BusUnavailable."""
        self._scheduler.cast(
            context,
            "run_instance",
            "3.0",
            request_spec=request_spec,
            admin_password=admin_password,
            injected_files=injected_files,
            requested_networks=requested_networks,
            is_first_time=is_first_time,
            filter_properties=filter_properties,
            legacy_bdm_in_spec=legacy_bdm_in_spec,
        )

    def prep_resize(
        self,
        context: Context,
        instance: Mapping[str, Any],
        instance_type: Mapping[str, Any],
        image: Mapping[str, Any],
        request_spec: Mapping[str, Any],
        filter_properties: Mapping[str, Any],
        reservations: Sequence[str] | None,
    ) -> None:
        """Cast 3.0: pick a host for a resize or cold migration and have it prepared. Raises BusUnavailable."""
        self._scheduler.cast(
            context,
            "prep_resize",
            "3.0",
            instance=instance,
            instance_type=instance_type,
            image=image,
            request_spec=request_spec,
            filter_properties=filter_properties,
            reservations=reservations,
        )

    def select_destinations(
        self, context: Context, request_spec: Mapping[str, Any], filter_properties: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Call 3.0: ``{host, nodename, limits}`` per instance, in order. Raises NoValidHost, BusUnavailable."""
        answer: list[dict[str, Any]] = self._scheduler.call(
            context,
            "select_destinations",
            "3.0",
            request_spec=request_spec,
            filter_properties=filter_properties,
        )
        return answer

    def ping(self, context: Context, arg: Any) -> dict[str, Any]:
        """Call ``baseapi`` 1.0: ``{service, arg}`` of whoever answers first. Raises BusUnavailable."""
        answer: dict[str, Any] = self._base.call(context, "ping", "1.0", arg=arg)
        return answer

    def explain(
        self, context: Context, request_spec: Mapping[str, Any], filter_properties: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Call ``nova_sched`` 1.0: the decision record of a dry run; nothing is claimed. Raises BusUnavailable."""
        answer: dict[str, Any] = self._own.call(
            context, "explain", "1.0", request_spec=request_spec, filter_properties=filter_properties
        )
        return answer

    def get_instance(self, context: Context, uuid: str) -> dict[str, Any]:
        """Call ``nova_sched`` 1.0: ``{uuid, vm_state, task_state, host, node, attempt, fault}``.

        Raises InstanceNotFound, BusUnavailable.
        """
        answer: dict[str, Any] = self._own.call(context, "get_instance", "1.0", uuid=uuid)
        return answer

    def delete_instance(self, context: Context, uuid: str) -> None:
        """Cast ``nova_sched`` 1.0: leave a tombstone, free what is claimed. Raises BusUnavailable."""
        self._own.cast(context, "delete_instance", "1.0", uuid=uuid)

    def get_hosts(
        self, context: Context, marker: str | None = None, limit: int = 1000
    ) -> list[dict[str, Any]]:
        """Call ``nova_sched`` 1.0: hosts after ``marker``, at most ``limit``. Raises BusUnavailable."""
        answer: list[dict[str, Any]] = self._own.call(context, "get_hosts", "1.0", marker=marker, limit=limit)
        return answer


class ReportAPI:
    """Client of the topic ``scheduler_report``, for compute agents.

    Version history::

        1.0  report_state, update_instance.
    """

    VERSION = "1.0"

    def __init__(self, transport: Any, settings: BusSettings | None = None, retry: int = 3) -> None:
        settings = settings or BusSettings()
        self._reports = RpcClient(transport, settings.report_topic, self.VERSION, retry=retry)

    def report_state(
        self, context: Context, service: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]
    ) -> None:
        """Cast 1.0, the heartbeat. Raises BusUnavailable: report again at the next interval, in full.

        It expires in the broker after two intervals: what waited longer says nothing of the host's life any more.

        :param service: ``{host, epoch, seq, interval_seconds, version}``; (epoch, seq) grows with each report.
        :param nodes: ``{hypervisor_hostname, values, instances, full}`` each; ``values`` are what changed (all when
            ``full``), by the names of Nova's compute_nodes; ``instances`` the uuids these contain, None = unchanged.
        """
        interval_seconds = service.get("interval_seconds")
        self._reports.cast(
            context,
            "report_state",
            "1.0",
            expiration_seconds=2 * interval_seconds if interval_seconds else None,
            service=service,
            nodes=nodes,
        )

    def update_instance(
        self,
        context: Context,
        uuid: str,
        attempt: int,
        host: str,
        node: str | None,
        state: str,
        reason: str | None = None,
    ) -> None:
        """Cast 1.0: a guest is ``building``, ``active``, ``failed`` or ``deleted``. Raises BusUnavailable."""
        self._reports.cast(
            context,
            "update_instance",
            "1.0",
            uuid=uuid,
            attempt=attempt,
            host=host,
            node=node,
            state=state,
            reason=reason,
        )
