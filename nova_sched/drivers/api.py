"""What a driver is. One written by a user loads by its dotted path or entry point, like ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

import numpy as np

from nova_sched.hosts.overlay import Overlay
from nova_sched.model.decision import Decision
from nova_sched.model.explanation import Detail
from nova_sched.model.facts import Fact, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.settings import SchedulerSettings


@runtime_checkable
class SchedulerDriver(Protocol):
    """Decides; no I/O, no clock, no global random.

    ``name``: goes into records. ``needs``: facts to prefetch. ``refresh_period_seconds``: 0 = read what changed before
    each batch; otherwise the host table may be that old. A driver may have an attribute ``draws``: False says that it never
    uses ``rng``, so that none is seeded for it.
    """

    name: str
    needs: frozenset[Fact]
    refresh_period_seconds: float

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        """Build the one instance of the process. Raises ConfigurationError or UnknownPlugin."""
        ...

    def decide(
        self,
        request: SchedulingRequest,
        overlay: Overlay,
        facts: Facts,
        rng: np.random.Generator,
        detail: Detail = Detail.COUNTS,
    ) -> Decision:
        """Place each instance of ``request`` and consume it on ``overlay``.

        A run_instance request may be answered in part. select_destinations and prep_resize need all or none: with
        one refusal nothing stays consumed. ``RequestRefused`` is answered as refusals of all instances, not raised.
        Raises PluginError when a plugin broke; the overlay is as before then.
        """
        ...

    def plugins(self) -> Sequence[str]:
        """Names of the filters and weighers in use, for logs and ``plugins list``."""
        ...
