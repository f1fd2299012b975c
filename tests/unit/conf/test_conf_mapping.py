"""Settings from the config member of decision cases."""

from __future__ import annotations

import pytest

from nova_sched.conf.mapping import settings_from_mapping
from nova_sched.errors import ConfigurationError


def test_lists_are_json_lists_or_comma_texts():
    """Both forms of the case files mean the same."""
    as_list = settings_from_mapping({"scheduler_default_filters": ["RamFilter", " CoreFilter "]})
    as_text = settings_from_mapping({"scheduler_default_filters": "RamFilter, CoreFilter"})
    assert as_list == as_text
    assert as_list.scheduler.filters.enabled == ("RamFilter", "CoreFilter")


def test_empty_text_is_the_empty_list():
    """No filters at all, instead of the default ones."""
    settings = settings_from_mapping({"scheduler_default_filters": "", "scheduler_weight_classes": ""})
    assert settings.scheduler.filters.enabled == ()
    assert settings.scheduler.weighers.classes == ()


def test_dot_separates_group_and_option():
    """metrics.required is [metrics] required."""
    weighers = settings_from_mapping(
        {"metrics.required": False, "metrics.weight_setting": "a=1,broken,=3,x="}
    ).scheduler.weighers
    assert weighers.metrics_required is False
    assert weighers.metrics_weight_setting == ("a=1", "broken", "=3", "x=")


@pytest.mark.parametrize(("value", "ratio"), [("0", 0.0), (0, 0.0), (1.5, 1.5), ("0.9", 0.9)])
def test_numbers_may_be_texts(value, ratio):
    """As nova.conf would have them."""
    assert (
        settings_from_mapping({"disk_allocation_ratio": value}).scheduler.filters.disk_allocation_ratio
        == ratio
    )


def test_later_names_are_understood():
    """Cases may be written with today's names."""
    assert settings_from_mapping({"filter_scheduler.host_subset_size": 5}).scheduler.host_subset_size == 5


@pytest.mark.parametrize("value", [0, "0", -1, True, "many", None])
def test_max_attempts_below_one_is_refused(value):
    """scheduler_max_attempts < 1: the service does not start."""
    with pytest.raises(ConfigurationError) as caught:
        settings_from_mapping({"scheduler_max_attempts": value})
    assert caught.value.option == "scheduler_max_attempts"


def test_names_of_plugins_are_kept_for_them():
    """Options that nobody registered are handed over as they are."""
    assert dict(settings_from_mapping({"mine.level": [1]}).extras) == {"mine.level": [1]}


def test_a_down_time_needs_no_report_interval_to_suit():
    """Hosts of a case have one heartbeat and no agents; options that name the interval are checked as for a daemon."""
    assert settings_from_mapping({"service_down_time": 5}).scheduler.filters.service_down_time_seconds == 5
    with pytest.raises(ConfigurationError):
        settings_from_mapping({"service_down_time": 5, "report_interval": 10})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isolated_hosts", 5),
        ("isolated_images", True),
        ("scheduler_default_filters", {"RamFilter": 1}),
        ("metrics.required", {"a": 1}),
        ("metrics.required", 7),
        ("default_availability_zone", "$nowhere"),
    ],
)
def test_values_of_another_type_are_refused(name, value):
    """The refusal names the option; nothing else is raised."""
    with pytest.raises(ConfigurationError) as caught:
        settings_from_mapping({name: value})
    assert caught.value.option == name


@pytest.mark.parametrize(("value", "truth"), [(0, False), (1, True), ("no", False), ("On", True)])
def test_flags_may_be_numbers(value, truth):
    """As JSON may have them."""
    assert settings_from_mapping({"metrics.required": value}).scheduler.weighers.metrics_required is truth
