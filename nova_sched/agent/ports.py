"""What an agent needs of the bus; ``rpcapi`` implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class SchedulerClient(Protocol):
    """Client of topic ``scheduler`` (``rpcapi.SchedulerAPI``)."""

    def run_instance(
        self,
        context: Mapping[str, Any],
        request_spec: Mapping[str, Any],
        admin_password: str | None,
        injected_files: Sequence[Any] | None,
        requested_networks: Any,
        is_first_time: bool,
        filter_properties: Mapping[str, Any],
        legacy_bdm_in_spec: bool = True,
    ) -> None:
        """Cast a build back to the scheduler. Raises BusUnavailable."""
        ...


class ReportClient(Protocol):
    """Client of topic ``scheduler_report`` (``rpcapi.ReportAPI``)."""

    def report_state(
        self, context: Mapping[str, Any], service: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]
    ) -> None:
        """Cast a heartbeat with numbers. Raises BusUnavailable."""
        ...

    def update_instance(
        self,
        context: Mapping[str, Any],
        uuid: str,
        attempt: int,
        host: str,
        node: str | None,
        state: str,
        reason: str | None = None,
    ) -> None:
        """Cast what became of a build. Raises BusUnavailable."""
        ...
