"""The hosts of a case, the claims on them, and what a scheduler sees of both.

The rules for claims are those of the claims in SQL: a row newer than a claim contains it, a row older than the last
live claim is ignored, a row that never was updated is used as it is, plus claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from nova_sched.hosts import pci
from nova_sched.hosts.overlay import Overlay
from nova_sched.hosts.schema import HOST_COLUMNS, HostDelta
from nova_sched.hosts.table import HostTable
from nova_sched.lab.case import Case, CaseRequest, moment
from nova_sched.model.decision import Placement
from nova_sched.model.facts import Facts, GroupFact, InstanceFact
from nova_sched.model.pci import PciPool
from nova_sched.model.request import Amounts, SchedulingRequest


@dataclass(frozen=True, slots=True)
class _Claim:
    host_id: int
    at_seconds: float
    amounts: Amounts
    devices: Mapping[str, Any]


class World:
    """State of one case between its requests."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._live = tuple(one for one in case.instances if one.uuid not in case.soft_deleted)
        self._rows = {number: dict(row) for number, row in enumerate(case.hosts, start=1)}
        self._seen = {number: dict(row) for number, row in self._rows.items()}
        self._given = self._given_claims()
        self._claims = list(self._given)
        self.now_seconds = case.now_seconds
        self.table = HostTable()
        self._read_once = False

    def before(self, request: CaseRequest) -> Overlay:
        """Let happen what happens before this request, and give what its scheduler sees."""
        if request.set_now_seconds is not None:
            self.now_seconds = request.set_now_seconds
        for update in request.update_hosts:
            for row in self._rows.values():
                if row["hypervisor_hostname"] == update["hypervisor_hostname"]:
                    row.update(update)
        if not self._case.shared_state:
            self._claims = list(self._given)
            self._read_once = False
        if not (self._case.reads_hosts_once and self._read_once):
            self._read_rows()
        self._refresh()
        return self.table.overlay()

    def claim(self, request: SchedulingRequest, placements: Iterable[Placement]) -> None:
        """Keep what these placements take of their hosts."""
        self._refresh()
        left: dict[int, tuple[PciPool, ...] | None] = {}
        for placement in placements:
            number = placement.host_id
            if number not in left:
                row = self.table.row_of(number)
                left[number] = self.table.pools(row) if row is not None else None
            devices = _devices(placement, left[number])
            if placement.pci_pools is not None:
                left[number] = placement.pci_pools
            self._claims.append(_Claim(number, self.now_seconds, request.amounts, devices))

    def host_states(self) -> dict[str, dict[str, float | None]]:
        """By host/node: what the next request would start from if no row changed."""
        self._refresh()
        overlay = self.table.overlay()
        view = overlay.view
        return {f"{view.hosts[row]}/{view.nodes[row]}": dict(overlay.state(row)) for row in range(len(view))}

    def facts(self, request: SchedulingRequest) -> Facts:
        """Everything a plugin could ask for; instances of the requests themselves are on no host yet."""
        by_host: dict[str, list[InstanceFact]] = {}
        for one in self._case.instances:
            if one.host is not None:
                by_host.setdefault(one.host, []).append(one)
        return Facts(
            group=self._group(request),
            hinted_instances={one.uuid: one for one in self._live},
            instances_by_host={host: tuple(found) for host, found in by_host.items()},
            trust_levels=self._case.trust_levels,
        )

    def _given_claims(self) -> list[_Claim]:
        numbers = {(row["host"], row["hypervisor_hostname"]): number for number, row in self._rows.items()}
        return [
            _Claim(numbers[one.host, one.node], self._case.now_seconds, one.amounts, one.devices)
            for one in self._case.claims
            if (one.host, one.node) in numbers
        ]

    def _group(self, request: SchedulingRequest) -> GroupFact | None:
        groups = self._case.groups
        if request.group is not None:
            found = [one for one in groups if one.uuid == request.group]
            found = found or [one for one in groups if one.name == request.group]
        else:
            found = [one for one in groups if set(one.members) & set(request.uuids[:1])]
        if not found:
            return None
        group = found[0]
        hosts = {one.uuid: one.host for one in self._live if one.host is not None}
        members = {uuid: hosts[uuid] for uuid in group.members if uuid in hosts}
        members |= {f"{uuid}/moving": host for uuid, host in group.moving.items()}
        return GroupFact(group.uuid, group.name, group.policies, members)

    def _read_rows(self) -> None:
        self._read_once = True
        for number, row in self._rows.items():
            updated = moment(row.get("updated_at"))
            own = [claim.at_seconds for claim in self._claims if claim.host_id == number]
            if updated is not None and own and updated < max(own):
                continue
            self._seen[number] = dict(row)
            if updated is not None:
                self._claims = [
                    claim for claim in self._claims if claim.host_id != number or claim.at_seconds > updated
                ]

    def _refresh(self) -> None:
        rows = [_columns(number, row, self._claims) for number, row in self._seen.items() if row["service"]]
        self.table.apply(
            HostDelta(
                columns={name: [row.get(name) for row in rows] for name in HOST_COLUMNS},
                now_seconds=self.now_seconds,
                full=True,
                aggregates=self._case.aggregates,
            )
        )


def _columns(number: int, row: Mapping[str, Any], claims: Sequence[_Claim]) -> dict[str, Any]:
    service = row["service"]
    sign_of_life = service.get("updated_at") or service.get("created_at")
    own = [claim for claim in claims if claim.host_id == number]
    devices: dict[str, list[Any]] = {}
    for claim in own:
        for kind, taken in claim.devices.items():
            devices.setdefault(kind, []).extend(taken)
    return {
        **row,
        "id": number,
        "node": row["hypervisor_hostname"],
        "disabled": bool(service.get("disabled")),
        "heartbeat_seconds": moment(sign_of_life),
        "claimed_vcpus": sum(claim.amounts.vcpus for claim in own),
        "claimed_memory_mb": sum(claim.amounts.memory_mb for claim in own),
        "claimed_disk_mb": sum(claim.amounts.disk_mb for claim in own),
        "claimed_instances": sum(claim.amounts.instances for claim in own),
        "claimed_io_ops": sum(claim.amounts.io_ops for claim in own),
        "claimed_devices": orjson.dumps(devices).decode() if devices else None,
    }


def _devices(placement: Placement, pools: tuple[PciPool, ...] | None) -> dict[str, Any]:
    devices: dict[str, Any] = {}
    if placement.numa_fit is not None:
        devices["numa"] = [
            {"id": cell.id, "cpus": sorted(cell.cpus), "memory_mb": cell.memory_mb}
            for cell in placement.numa_fit.cells
        ]
    if placement.pci_pools is not None and pools is not None:
        devices["pci"] = [
            {"count": pool.count, "tags": dict(pool.tags)} for pool in pci.taken(pools, placement.pci_pools)
        ]
    return devices
