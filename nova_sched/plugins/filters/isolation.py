"""IsolatedHostsFilter."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Self

import numpy as np

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.settings import SchedulerSettings


class IsolatedHostsFilter(HostFilter):
    """Images of ``isolated_images`` run on ``isolated_hosts`` only.

    ``restrict_isolated_hosts_to_isolated_images``: other images, and requests without an image (volume-backed), stay
    off these hosts.
    """

    name = "IsolatedHostsFilter"
    reason = "image and host are not isolated together"
    run_once_per_request = True

    def __init__(self, images: Collection[str], hosts: Collection[str], restrict: bool) -> None:
        self._images = frozenset(image.strip() for image in images)
        self._hosts = frozenset(host.strip() for host in hosts)
        self._restrict = restrict

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        filters = settings.filters
        restrict = filters.restrict_isolated_hosts_to_isolated_images
        return cls(filters.isolated_images, filters.isolated_hosts, restrict)

    def _isolated_image(self, request: SchedulingRequest) -> bool:
        return request.image.id in self._images

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        return self._isolated_image(request)

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        isolated = view.on_hosts(self._hosts)
        if self._isolated_image(request):
            return isolated
        return ~isolated if self._restrict else np.ones(len(view), dtype=np.bool_)

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        if self._isolated_image(request):
            return f"image {request.image.id} is isolated, the host is not"
        return f"the host is isolated, image {request.image.id} is not"
