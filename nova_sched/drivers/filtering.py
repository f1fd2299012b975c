"""The filter driver, and the engine of the caching one: filters, weighers, choice, consumption, round after round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from nova_sched.drivers.candidates import candidates
from nova_sched.drivers.narrator import Narrator
from nova_sched.drivers.refusals import PCI_FILTER, refuse_impossible
from nova_sched.errors import RequestRefused
from nova_sched.hosts import numa, pci
from nova_sched.hosts.overlay import Overlay
from nova_sched.hosts.view import HostView
from nova_sched.model.decision import Decision, Placement, Refusal
from nova_sched.model.explanation import Detail, Explanation, Round
from nova_sched.model.facts import Fact, Facts, InstanceFact
from nova_sched.model.limits import Limits
from nova_sched.model.numa import HostTopology, InstanceTopology
from nova_sched.model.pci import PciPool
from nova_sched.model.request import InstanceRef, SchedulingRequest
from nova_sched.plugins import registry
from nova_sched.plugins.api import HostFilter, HostWeigher
from nova_sched.plugins.guard import PluginGuard
from nova_sched.plugins.pipeline import FilterPipeline, Sieve
from nova_sched.plugins.scores import Scores
from nova_sched.plugins.scoring import Scorer
from nova_sched.settings import SchedulerSettings

#: Methods that are answered in part; all others need a host for every instance.
PARTIAL_METHODS = frozenset({"run_instance"})

#: Rounds that a record without Detail.FULL keeps, besides the last one.
ROUNDS_KEPT = 16


class FilterDriver:
    """Reads what changed before each batch, filters, weighs, and takes the best host."""

    name: str = "filter_scheduler"
    refresh_period_seconds: float = 0.0

    def __init__(
        self,
        filters: Sequence[HostFilter],
        weighers: Sequence[HostWeigher],
        settings: SchedulerSettings | None = None,
    ) -> None:
        self._settings = settings or SchedulerSettings()
        self._guard = PluginGuard()
        self._pipeline = FilterPipeline(filters, self._guard)
        self._scorer = Scorer(
            weighers,
            self._guard,
            subset_size=self._settings.host_subset_size,
            shuffle=self._settings.shuffle_best_same_weighed_hosts,
        )
        self._filter_names = frozenset(one.name for one in filters)
        # The group is always needed: a group without its filter is refused rather than ignored.
        needs = {Fact.GROUP}
        needs.update(*(one.needs for one in filters), *(one.needs for one in weighers))
        self.needs: frozenset[Fact] = frozenset(needs)

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        """Load the configured filters and weighers. Raises ConfigurationError and UnknownPlugin."""
        return cls(registry.load_filters(settings), registry.load_weighers(settings), settings)

    @property
    def filters(self) -> tuple[HostFilter, ...]:
        """The enabled filters in their order."""
        return self._pipeline.filters

    @property
    def draws(self) -> bool:
        """Whether the generator of a decision is used at all."""
        return self._settings.host_subset_size > 1 or self._settings.shuffle_best_same_weighed_hosts

    @property
    def guard(self) -> PluginGuard:
        """What runs in plugin code right now, for a watchdog."""
        return self._guard

    def plugins(self) -> Sequence[str]:
        """Names of the filters and weighers in use, in their order."""
        return [one.name for one in self._pipeline.filters] + [one.name for one in self._scorer.weighers]

    def sift(self, request: SchedulingRequest, view: HostView, facts: Facts) -> Sieve:
        """The hosts of ``view`` (a whole table) that a first guest could use now; nothing is weighed or consumed.

        Raises RequestRefused and PluginError.
        """
        refuse_impossible(request, facts, self._settings, self._filter_names)
        left, _ = candidates(view, request)
        sieve = self._pipeline.sieve(view, request, left)
        if not request.forced:
            sieve.first_round(facts)
        return sieve

    def decide(
        self,
        request: SchedulingRequest,
        overlay: Overlay,
        facts: Facts,
        rng: np.random.Generator,
        detail: Detail = Detail.COUNTS,
    ) -> Decision:
        """As :class:`~nova_sched.drivers.api.SchedulerDriver` says."""
        mark = overlay.mark
        run = _Run(self, request, overlay, facts, rng, detail)
        try:
            refuse_impossible(request, facts, self._settings, self._filter_names)
            run.place_all()
        except RequestRefused as refused:
            overlay.rollback(mark)
            return run.refused(str(refused))
        except BaseException:
            overlay.rollback(mark)
            raise
        if run.missing and request.method not in PARTIAL_METHODS:
            overlay.rollback(mark)
            return run.refused(run.reason)
        return run.decision()


class _Run:
    """One request being decided."""

    def __init__(
        self,
        driver: FilterDriver,
        request: SchedulingRequest,
        overlay: Overlay,
        facts: Facts,
        rng: np.random.Generator,
        detail: Detail,
    ) -> None:
        self._driver = driver
        self._request = request
        self._overlay = overlay
        self._facts = facts
        self._rng = rng
        self._full = detail is Detail.FULL
        self._top = driver._settings.explanation_top_hosts
        self._weighing = driver._scorer.weighing(request)
        self._narrator = Narrator(overlay, request, driver._guard)
        self._placements: list[Placement] = []
        self._rounds: list[Round] = []
        self._taken_out: Mapping[str, int] = {}
        self.reason = ""

    @property
    def missing(self) -> int:
        """Instances without a host."""
        return len(self._request.instances) - len(self._placements)

    def place_all(self) -> None:
        """Place instance after instance until no host is left. Raises RequestRefused and PluginError."""
        view, request = self._overlay.view, self._request
        left, self._taken_out = candidates(view, request)
        sieve = self._driver._pipeline.sieve(view, request, left)
        touched: list[int] = []
        for index, instance in enumerate(request.instances):
            before = self._overlay.mark
            if not request.forced:
                if index == 0:
                    sieve.first_round(self._facts)
                else:
                    sieve.next_round(self._facts, touched)
            if not sieve.count:
                self.reason = self._narrator.no_host(sieve, self._taken_out, self._facts)
                self._record(index, instance, sieve)
                return
            self._place(index, instance, sieve, touched)
            touched = self._overlay.touched_since(before)

    def _place(self, index: int, instance: InstanceRef, sieve: Sieve, touched: Sequence[int]) -> None:
        scores = self._weigh(index, instance, sieve, touched)
        position = self._driver._scorer.draw(scores, self._rng)
        row = int(scores.rows[position])
        placement, topology, pools = self._placement(instance, row, float(scores.weights[position]))
        told = self._told(index, scores, row, placement.limits)
        self._overlay.consume(row, self._request.amounts, topology, pools)
        self._placements.append(placement)
        if told is not None:
            self._record(
                index, instance, sieve, **told, after=self._narrator.after(row) if self._full else None
            )
        self._facts = self._facts.placed(
            InstanceFact(
                # Without a uuid the guest still is where it is: the next member of its group has to know.
                instance.uuid or f"instance {instance.launch_index}",
                placement.host,
                placement.node,
                self._request.project_id,
                self._request.instance_type_id,
            )
        )

    def _weigh(self, index: int, instance: InstanceRef, sieve: Sieve, touched: Sequence[int]) -> Scores:
        view = self._overlay.view
        passed = view if sieve.count == len(view) else view.take(np.flatnonzero(sieve.left))
        try:
            return self._weighing.scores(passed, self._facts, touched)
        except RequestRefused:
            self._record(index, instance, sieve)
            raise

    def _placement(
        self, instance: InstanceRef, row: int, weight: float
    ) -> tuple[Placement, HostTopology | None, tuple[PciPool, ...] | None]:
        """The placement on a row, and the row's cells and pools once the guest has taken its share of them."""
        view, request = self._overlay.view, self._request
        limits = None if request.forced else self._limits(row)
        fit, topology = self._numa(row, limits)
        pools = self._pools(row)
        group = self._facts.group
        placement = Placement(
            instance=instance,
            host_id=int(view.ids[row]),
            host=view.hosts[row],
            node=view.nodes[row],
            weight=weight,
            limits=limits,
            host_generation=int(view.allocation_generation[row]),
            numa_fit=fit,
            pci_pools=pools,
            group_uuid=group.uuid if group is not None else None,
            group_generation=group.generation if group is not None else 0,
        )
        return placement, topology, pools

    def _limits(self, row: int) -> Limits:
        fields: dict[str, Any] = {}
        for one in self._driver._pipeline.limiting:
            fields.update(
                self._driver._guard.call(one.name, one.limits, self._overlay.view, row, self._request)
            )
        return Limits(**fields)

    def _numa(self, row: int, limits: Limits | None) -> tuple[InstanceTopology | None, HostTopology | None]:
        """(fit of this host in this round, cells afterwards). Without the filter the guest's own cell ids count."""
        asked = self._request.numa
        cells = self._overlay.topology(row) if asked is not None else None
        if asked is None or cells is None:
            return None, None
        ratios = None if limits is None else limits.numa
        if ratios is None:
            return asked, numa.use(cells, numa.uses_of(asked))
        fit = numa.fit(cells, asked, cpu_ratio=ratios.cpu_ratio, ram_ratio=ratios.ram_ratio)
        if fit is None:
            return None, None
        return fit, numa.use(cells, numa.uses_of(fit))

    def _pools(self, row: int) -> tuple[PciPool, ...] | None:
        """Pools that are left. Only a forced host can lack devices here: its filter was skipped (LP#1482019)."""
        asked = self._request.pci_requests
        if not asked:
            return None
        left = pci.take(self._overlay.pools(row) or (), asked)
        if left is None:
            raise RequestRefused(PCI_FILTER, "the forced host lacks the PCI devices asked for")
        return left

    def _told(self, index: int, scores: Scores, row: int, limits: Limits | None) -> dict[str, Any] | None:
        """What the record says about a choice; asked before the guest is consumed. None = this round is not kept."""
        if self._full:
            weighed = np.argsort(-scores.weights, kind="stable").tolist()
            choices = scores.choices(self._driver._scorer.subset_size).tolist()
        elif index < ROUNDS_KEPT:
            weighed = scores.top(self._top)
            choices = scores.choices_among(weighed, self._driver._scorer.subset_size)
        else:
            return None
        return {
            "weighed": self._narrator.weighed(scores, weighed),
            "choices": self._narrator.names(scores.rows[choices]),
            "chosen": self._narrator.name(row),
            "limits": limits,
        }

    def _record(self, index: int, instance: InstanceRef, sieve: Sieve, **told: Any) -> None:
        narrator, full = self._narrator, self._full
        if full:
            steps = narrator.named(sieve.steps, self._facts)
        elif sieve.count:
            steps = narrator.counted(sieve.steps)
        else:
            steps = narrator.telling(sieve.steps, self._facts)
        self._rounds.append(
            Round(
                index=index,
                instance=instance,
                hosts_seen=sieve.steps[0].hosts_in if sieve.steps else sieve.count,
                steps=steps,
                filtered=narrator.names(np.flatnonzero(sieve.left)) if full else None,
                **told,
            )
        )

    def decision(self) -> Decision:
        """Placements and, for the instances without a host, refusals."""
        missing = self._request.instances[len(self._placements) :]
        answers: tuple[Placement | Refusal, ...] = (
            *self._placements,
            *(Refusal(instance, self.reason) for instance in missing),
        )
        return Decision(self._request, answers, self._explanation(None), self._facts.group)

    def refused(self, reason: str) -> Decision:
        """All instances refused for one reason."""
        answers = tuple(Refusal(instance, reason) for instance in self._request.instances)
        return Decision(self._request, answers, self._explanation(reason))

    def _explanation(self, refused: str | None) -> Explanation:
        return Explanation(
            driver=self._driver.name,
            hosts_total=len(self._overlay.view),
            rounds=tuple(self._rounds),
            before=self._taken_out,
            forced=self._request.forced,
            refused=refused,
            generation=self._overlay.view.generation,
        )
