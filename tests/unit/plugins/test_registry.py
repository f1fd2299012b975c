"""Finding plugins: entry points, dotted paths, Nova's names, and what is refused at the start."""

from __future__ import annotations

from typing import Any

import pytest

from nova_sched.drivers.caching import CachingDriver
from nova_sched.drivers.chance import ChanceDriver
from nova_sched.drivers.filtering import FilterDriver
from nova_sched.errors import ConfigurationError, UnknownPlugin
from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins import registry
from nova_sched.plugins.api import HostFilter, HostWeigher, Mask, RawWeights
from nova_sched.plugins.filters.compute import AllHostsFilter
from nova_sched.plugins.filters.ram import RamFilter
from nova_sched.settings import SchedulerSettings
from nova_sched.testing.deciding import settings


class Own(HostFilter):
    """A filter without an entry point."""

    name = "Own"
    reason = "own"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return view.free_ram_mb > 0


class StartsNot(Own):
    """A filter that raises while it is built."""

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Any:
        raise RuntimeError("no licence")


class Nameless(HostFilter):
    """A filter whose author forgot its name."""

    reason = "nameless"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return view.free_ram_mb > 0


class Reasonless(Nameless):
    """A filter whose reason is none."""

    name = "Reasonless"
    reason = None  # type: ignore[assignment]


class NamelessWeigher(HostWeigher):
    """A weigher without a name."""

    def raw(self, view: HostView, request: SchedulingRequest, facts: Facts) -> RawWeights:
        return RawWeights(view.free_ram_mb)

    def multiplier(self, view: HostView) -> float:
        return 1.0


def two_filters() -> list[type[HostFilter]]:
    """A catalogue, as Nova's option takes one."""
    return [Own, RamFilter]


NOT_A_FILTER = {"some": "thing"}
HERE = __name__


@pytest.mark.parametrize("kind", registry.KINDS)
def test_everything_registered_loads(kind: str) -> None:
    """No entry point leads nowhere."""
    names = {source.name for source in registry.known(kind)}
    assert names
    for point in registry._entry_points(kind).values():
        assert isinstance(point.load(), type), point.name


def test_every_filter_and_weigher_goes_by_its_class_name() -> None:
    """Nova's class names are entry points, and each class calls itself by its name."""
    for kind in ("filters", "weighers"):
        for name, point in registry._entry_points(kind).items():
            found = point.load()
            assert found.name == found.__name__
            assert name in (found.__name__, name.lower())


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("filter_scheduler", FilterDriver),
        ("nova.scheduler.filter_scheduler.FilterScheduler", FilterDriver),
        ("nova.scheduler.chance.ChanceScheduler", ChanceDriver),
        ("nova.scheduler.caching_scheduler.CachingScheduler", CachingDriver),
        ("nova_sched.drivers.chance.ChanceDriver", ChanceDriver),
        ("chance", ChanceDriver),
    ],
)
def test_a_driver_goes_by_entry_point_path_or_novas_name(name: str, wanted: type) -> None:
    """LP#1704788: names and import paths both work, and a Juno nova.conf works unedited."""
    assert type(registry.load_driver(SchedulerSettings(driver=name))) is wanted


@pytest.mark.parametrize("name", ["nosuch", "no.such.Driver", "nova_sched.drivers.chance.NoSuch"])
def test_an_unknown_driver_names_the_known_ones(name: str) -> None:
    """The start says what was found and what would do."""
    with pytest.raises(UnknownPlugin, match=r"scheduler_driver = .*filter_scheduler"):
        registry.load_driver(SchedulerSettings(driver=name))


def test_a_driver_that_is_none_is_refused() -> None:
    """A class that cannot decide is no driver."""
    with pytest.raises(ConfigurationError, match="from_settings and decide"):
        registry.load_driver(SchedulerSettings(driver="nova_sched.settings.SchedulerSettings"))


@pytest.mark.parametrize("name", ["RamFilter", "ram", "nova.scheduler.filters.ram_filter.RamFilter"])
def test_a_filter_goes_by_class_name_short_name_and_novas_path(name: str) -> None:
    """All mean the same filter."""
    assert [type(one) for one in registry.load_filters(settings([name]))] == [RamFilter]


@pytest.mark.parametrize("catalogue", ["all_filters", "standard_filters"])
def test_novas_catalogues_stand_for_all_filters(catalogue: str) -> None:
    """Case 300: standard_filters is an alias."""
    chosen = settings(["AllHostsFilter"], available=[f"nova.scheduler.filters.{catalogue}"])
    assert [type(one) for one in registry.load_filters(chosen)] == [AllHostsFilter]


def test_filters_keep_the_order_of_the_option() -> None:
    """Order decides the trace and which limit wins."""
    names = ["RamFilter", "AllHostsFilter", "CoreFilter"]
    assert [one.name for one in registry.load_filters(settings(names))] == names


@pytest.mark.parametrize("name", ["Own", f"{HERE}.Own"])
@pytest.mark.parametrize("available", [f"{HERE}.Own", f"{HERE}.two_filters"])
def test_an_own_filter_is_made_available_by_path(name: str, available: str) -> None:
    """By class or by a function that lists classes; enabled by class name or path."""
    loaded = registry.load_filters(settings([name], available=[available]))
    assert [type(one).__name__ for one in loaded] == ["Own"]


def test_a_known_filter_that_is_not_available_is_refused_by_name() -> None:
    """Case 298."""
    with pytest.raises(ConfigurationError, match="CoreFilter"):
        registry.load_filters(settings(["CoreFilter"], available=["ram"]))


def test_an_unknown_filter_is_refused_with_the_known_ones() -> None:
    """Case 295."""
    with pytest.raises(UnknownPlugin, match=r"NoSuchFilter.*RamFilter"):
        registry.load_filters(settings(["NoSuchFilter"]))


def test_a_plugin_that_does_not_start_is_named_with_its_reason() -> None:
    """Whatever a plugin raises while it is built stops the start with a sentence."""
    with pytest.raises(ConfigurationError, match=r"StartsNot.*RuntimeError: no licence"):
        registry.load_filters(settings(["StartsNot"], available=[f"{HERE}.StartsNot"]))


def test_a_module_that_breaks_on_import_is_named_with_its_reason(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import that fails inside of the plugin is told apart from a path that is wrong."""
    (tmp_path / "breaks_on_import.py").write_text("import nosuch_dependency_of_mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match="nosuch_dependency_of_mine"):
        registry.load_filters(settings(["Some"], available=["breaks_on_import.Some"]))


def test_something_that_is_no_filter_is_refused() -> None:
    """A path may lead to anything; only filters filter."""
    with pytest.raises(ConfigurationError, match="ChanceDriver"):
        registry.load_filters(
            settings(["ChanceDriver"], available=["nova_sched.drivers.chance.ChanceDriver"])
        )


def test_all_weighers_are_ours_and_no_weigher_is_fine() -> None:
    """An empty list weighs nothing; Nova's catalogue is the whole one; its class paths are ours."""
    assert registry.load_weighers(settings(weighers=[])) == []
    names = {
        one.name for one in registry.load_weighers(settings(weighers=["nova.scheduler.weights.all_weighers"]))
    }
    assert {"RAMWeigher", "MetricsWeigher"} <= names
    one = registry.load_weighers(settings(weighers=["nova.scheduler.weights.ram.RAMWeigher"]))
    assert [weigher.name for weigher in one] == ["RAMWeigher"]


def test_each_weigher_is_built_once_however_often_it_is_named() -> None:
    """Entry points have two names per class; weights must not count twice."""
    loaded = registry.load_weighers(
        settings(weighers=["nova.scheduler.weights.all_weighers", "RAMWeigher", "ram"])
    )
    assert len({type(one) for one in loaded}) == len(loaded)


@pytest.mark.parametrize(("name", "attribute"), [("Nameless", "name"), ("Reasonless", "reason")])
def test_a_filter_without_its_texts_is_refused_at_the_start(name: str, attribute: str) -> None:
    """Not with an AttributeError when the first decision is written down."""
    with pytest.raises(
        ConfigurationError, match=rf"scheduler_default_filters = '{name}': .* attribute {attribute}"
    ):
        registry.load_filters(settings([name], available=[f"{HERE}.{name}"]))


def test_a_weigher_without_a_name_is_refused_at_the_start() -> None:
    """As a filter is."""
    with pytest.raises(ConfigurationError, match=r"scheduler_weight_classes.* attribute name"):
        registry.load_weighers(settings(weighers=[f"{HERE}.NamelessWeigher"]))
