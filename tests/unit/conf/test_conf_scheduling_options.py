"""The options that an export carries: enough to decide alike, and nothing secret."""

from __future__ import annotations

from pathlib import Path

from oslo_config import cfg

from nova_sched.conf import build
from nova_sched.conf.mapping import scheduling_options, settings_from_mapping

FILE = """
[DEFAULT]
transport_url = rabbit://user:s3cret@broker/
scheduler_driver = nova.scheduler.caching_scheduler.CachingScheduler
scheduler_default_filters = RamFilter, CoreFilter
scheduler_available_filters = nova.scheduler.filters.all_filters
scheduler_host_subset_size = 3
isolated_hosts = h1, h2
ram_allocation_ratio = 2.5
restrict_isolated_hosts_to_isolated_images = false
[database]
connection = mysql://user:s3cret@sql/nova_sched
[metrics]
weight_setting = cpu=1.0, net=-2
[trusted_computing]
attestation_server = trust.example.org
attestation_auth_blob = s3cret
"""


def parsed(folder: Path, text: str) -> cfg.ConfigOpts:
    file = folder / "nova.conf"
    file.write_text(text)
    return build.parse(cfg.ConfigOpts(), files=[str(file)])


def test_the_exported_options_decide_as_the_file_does(tmp_path: Path) -> None:
    """Everything below the scheduler's settings is the same; the secret alone is missing."""
    conf = parsed(tmp_path, FILE.replace("attestation_auth_blob = s3cret", ""))
    assert settings_from_mapping(scheduling_options(conf)).scheduler == build.settings_from(conf).scheduler


def test_no_secret_is_exported(tmp_path: Path) -> None:
    """Neither URLs nor options marked secret."""
    found = scheduling_options(parsed(tmp_path, FILE))
    assert "s3cret" not in str(found)
    assert found["trusted_computing.attestation_server"] == "trust.example.org"


def test_defaults_are_left_out(tmp_path: Path) -> None:
    """An export says what was set."""
    assert scheduling_options(parsed(tmp_path, "")) == {}
