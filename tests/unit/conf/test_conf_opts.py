"""Every option is written for the operator on call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from oslo_config import cfg, types

from nova_sched.conf import build, opts
from nova_sched.rpc.transport import register_options
from nova_sched.settings import Settings

JUNO_TIME_NAMES = {
    "scheduler_driver_task_period",
    "service_down_time",
    "report_interval",
    "graceful_shutdown_timeout",
    "attestation_auth_timeout",
}
ALL = [(group, opt) for group, options in opts.list_opts() for opt in options]
IDS = [f"{group}.{opt.name}" for group, opt in ALL]


@pytest.mark.parametrize(("group", "opt"), ALL, ids=IDS)
def test_option_has_help(group, opt):
    """The help is a sentence at least."""
    assert opt.help
    assert len(opt.help) > 20
    assert opt.help.endswith(".")


@pytest.mark.parametrize(("group", "opt"), ALL, ids=IDS)
def test_numeric_option_is_bounded(group, opt):
    """A number that makes no sense is refused at the start, not per request."""
    if isinstance(opt.type, types.Number):
        assert opt.type.max is not None
        assert opt.type.min is not None or opt.name == "scheduler_host_subset_size"


@pytest.mark.parametrize(("group", "opt"), ALL, ids=IDS)
def test_time_option_names_its_unit(group, opt):
    """Options of ours that mean a time end in _seconds; Juno's keep Juno's names."""
    words = {"timeout", "interval", "age", "ttl", "period", "time", "delay"}
    if isinstance(opt.type, types.Number) and words & set(opt.name.split("_")):
        assert opt.name.endswith("_seconds") or opt.name in JUNO_TIME_NAMES


def test_every_field_of_the_settings_has_an_option():
    """Nothing is out of an operator's reach."""
    assert [field for section in opts.SECTIONS for field in section.unreachable] == []


def test_no_option_is_listed_twice():
    """A name belongs to one section."""
    assert len(set(IDS)) == len(IDS)


def test_each_alias_belongs_to_one_option():
    """An alias that two options claimed would set both."""
    aliases = [(alias.group, alias.name) for _, opt in ALL for alias in opt.deprecated_opts]
    assert len(set(aliases)) == len(aliases)


def test_options_live_beside_the_libraries():
    """Registering where oslo.messaging has put its options already raises nothing, however often."""
    conf = cfg.ConfigOpts()
    register_options(conf)
    build.parse(conf, files=[])
    register_options(conf)
    opts.register_opts(conf)
    assert build.settings_from(conf).bus.control_exchange == Settings().bus.control_exchange


def test_oslo_messaging_finds_its_tracing_and_metrics_options():
    """Without them its RPC server loses messages silently."""
    conf = build.parse(cfg.ConfigOpts(), files=[])
    assert conf.oslo_messaging_tracing.tracing_enabled is False
    assert conf.oslo_messaging_metrics.metrics_enabled is False


def test_generated_files_show_our_defaults_of_library_options():
    """A sample with oslo.messaging's options says nova, not openstack."""
    command = [str(Path(sys.executable).with_name("oslo-config-generator"))]
    command += ["--namespace", "nova_sched", "--namespace", "oslo.messaging"]
    sample = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    for line in ("#control_exchange = nova", "#driver = messaging", "#amqp_durable_queues = true"):
        assert line in sample.splitlines()
