"""The textbook's placement policies, as weighers over whatever filters a configuration has.

Free and asked amounts are shares of the host: of its vCPUs and RAM after the allocation ratios of the configuration.
``dot-product`` is the vector packing heuristic of Panigrahy et al., "Heuristics for Vector Bin Packing" (2011): the host
whose free vector points most in the direction of what is asked.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Self

import numpy as np

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins import registry
from nova_sched.plugins.api import Column, HostWeigher, RawWeights
from nova_sched.settings import SchedulerSettings


class Policy(HostWeigher):
    """The only weigher of its driver. Of equal hosts the first in table order is taken."""

    def __init__(self, cpu_ratio: float, ram_ratio: float) -> None:
        self._cpu_ratio = cpu_ratio
        self._ram_ratio = ram_ratio

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        """Take the ratios."""
        return cls(settings.filters.cpu_allocation_ratio, settings.filters.ram_allocation_ratio)

    def multiplier(self, view: HostView) -> float:
        """Always 1."""
        return 1.0

    def raw(self, view: HostView, request: SchedulingRequest, facts: Facts) -> RawWeights:
        """The policy's value of each host; unknown amounts rank last."""
        values = self.value(view, request)
        unknown = np.isnan(values)
        return RawWeights(np.where(unknown, 0.0, values), demoted=unknown if unknown.any() else None)

    @abstractmethod
    def value(self, view: HostView, request: SchedulingRequest) -> Column:
        """What makes a host better, one number per row."""

    def free(self, view: HostView) -> tuple[Column, Column]:
        """Free vCPUs and RAM as shares of what the host may give."""
        vcpus = view.vcpus_total * self._cpu_ratio
        ram = view.ram_total_mb * self._ram_ratio
        return (vcpus - view.vcpus_used) / vcpus, (ram - view.ram_total_mb + view.free_ram_mb) / ram

    def asked(self, view: HostView, request: SchedulingRequest) -> tuple[Column, Column]:
        """What the guest takes of each host, as shares."""
        amounts = request.amounts
        return (
            amounts.vcpus / (view.vcpus_total * self._cpu_ratio),
            amounts.memory_mb / (view.ram_total_mb * self._ram_ratio),
        )


class FirstFit(Policy):
    """The first host in table order."""

    name = "first-fit"

    def value(self, view: HostView, request: SchedulingRequest) -> Column:
        return np.zeros(len(view))


class WorstFit(Policy):
    """The host with the most left afterwards."""

    name = "worst-fit"

    def value(self, view: HostView, request: SchedulingRequest) -> Column:
        (free_vcpus, free_ram), (vcpus, ram) = self.free(view), self.asked(view, request)
        left: Column = free_vcpus - vcpus + free_ram - ram
        return left


class BestFit(WorstFit):
    """The host with the least left afterwards."""

    name = "best-fit"

    def value(self, view: HostView, request: SchedulingRequest) -> Column:
        return -super().value(view, request)


class DotProduct(Policy):
    """The host whose free amounts match the shape of what is asked, larger ones first."""

    name = "dot-product"

    def value(self, view: HostView, request: SchedulingRequest) -> Column:
        (free_vcpus, free_ram), (vcpus, ram) = self.free(view), self.asked(view, request)
        product: Column = free_vcpus * vcpus + free_ram * ram
        return product


POLICIES: Mapping[str, type[Policy]] = {one.name: one for one in (FirstFit, BestFit, WorstFit, DotProduct)}


def policy_driver(name: str, settings: SchedulerSettings) -> FilterDriver:
    """A driver with the filters of ``settings`` that weighs by one policy. Raises KeyError for other names."""
    return FilterDriver(registry.load_filters(settings), [POLICIES[name].from_settings(settings)], settings)
