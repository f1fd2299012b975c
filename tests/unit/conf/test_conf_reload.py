"""What SIGHUP changes and what waits for a restart; what config check remarks."""

from __future__ import annotations

import dataclasses

from oslo_config import cfg

from nova_sched.conf import build, check, reload
from nova_sched.conf.mapping import settings_from_mapping
from nova_sched.settings import Settings, TrustedSettings


def test_ratios_filters_and_driver_are_reloadable_under_their_file_names():
    """The log says what changed in the words of the file."""
    new = settings_from_mapping(
        {"scheduler_driver": "chance", "ram_allocation_ratio": 1.0, "metrics.required": False}
    )
    changes = reload.diff(settings_from_mapping({}), new)
    assert {change.option for change in changes.reloadable} == {
        "scheduler_driver",
        "ram_allocation_ratio",
        "metrics.required",
    }
    assert changes.restart == ()
    assert str(changes.reloadable[0]) == "scheduler_driver: 'filter_scheduler' -> 'chance'"


def test_topics_sizes_and_connections_need_a_restart():
    """They are named, without values: a connection holds a password."""
    new = settings_from_mapping(
        {
            "database.connection": "mysql://u:secret@h/d",
            "delivery.prefetch": 300,
            "plugins.nova_imports": True,
        }
    )
    changes = reload.diff(settings_from_mapping({}), new)
    assert set(changes.restart) == {"database.connection", "delivery.prefetch", "plugins.nova_imports"}
    assert changes.reloadable == ()


def test_applied_takes_only_what_may_change():
    """The rest stays as it was at the start."""
    old = settings_from_mapping({})
    new = settings_from_mapping(
        {"ram_allocation_ratio": 1.0, "delivery.prefetch": 300, "plugins.nova_imports": True}
    )
    result = reload.applied(old, new)
    assert result.scheduler.filters.ram_allocation_ratio == 1.0
    assert result.scheduler.plugins.nova_imports is False
    assert result.delivery == old.delivery


def test_no_secret_is_reloadable():
    """Changes are logged with their values, so whatever is hidden in settings waits for a restart, unsaid."""
    old = Settings()
    trusted = TrustedSettings(attestation_auth_blob="s3cret")
    filters = dataclasses.replace(old.scheduler.filters, trusted=trusted)
    new = dataclasses.replace(old, scheduler=dataclasses.replace(old.scheduler, filters=filters))
    assert reload.diff(old, new) == reload.Changes((), ("trusted_computing.attestation_auth_blob",))
    assert reload.applied(old, new) == old


def _remarks(tmp_path, text: str) -> dict[str, str]:
    path = tmp_path / "nova.conf"
    path.write_text(text)
    conf = build.parse(cfg.ConfigOpts(), files=[str(path)])
    return {finding.option: finding.remark for finding in check.findings(conf, build.settings_from(conf))}


def test_check_names_misspelt_options(tmp_path):
    """Unknown names in our groups and near misses in shared ones; Nova's own options are left alone."""
    remarks = _remarks(
        tmp_path,
        "[DEFAULT]\nscheduler_defualt_filters = RamFilter\nrootwrap_config = x\n[delivery]\nprefetsch = 3",
    )
    assert "did you mean scheduler_default_filters?" in remarks["scheduler_defualt_filters"]
    assert "did you mean prefetch?" in remarks["delivery.prefetsch"]
    assert "rootwrap_config" not in remarks


def test_check_names_group_filters_that_are_off(tmp_path):
    """LP#1302238: a policy that nobody enforces is said before a user finds out."""
    remarks = _remarks(tmp_path, "[DEFAULT]\nscheduler_default_filters = RamFilter, ComputeFilter")
    assert "ServerGroupAntiAffinityFilter" in remarks["scheduler_default_filters"]


def test_check_has_nothing_to_say_about_a_plain_file(tmp_path):
    """No remark without a remedy."""
    assert _remarks(tmp_path, "[database]\nconnection = mysql+pymysql://u:p@h/d") == {}
