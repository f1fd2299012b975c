"""From nova.conf texts to settings: aliases, bounds, contradictions, legacy options."""

from __future__ import annotations

import dataclasses
import importlib
import signal
from importlib.metadata import version
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_sched.conf import build
from nova_sched.errors import ConfigurationError
from nova_sched.settings import Settings

GOLDEN = Path(__file__).parents[2] / "golden" / "conf"


class Parsed:
    """A configuration text, parsed: the oslo.config object, its settings and the lines said about old options."""

    def __init__(self, path: Path) -> None:
        self.said: list[str] = []
        self.conf = build.parse(cfg.ConfigOpts(), files=[str(path)], say=self.said.append)
        self.settings = build.settings_from(self.conf)


@pytest.fixture
def parsed(tmp_path):
    def parse(text: str) -> Parsed:
        path = tmp_path / "nova.conf"
        path.write_text(text)
        return Parsed(path)

    return parse


def test_empty_file_gives_the_defaults_of_the_settings(parsed):
    """The numbers stand once: an option's default is its field's default (the host name depends on the machine)."""
    settings = parsed("").settings
    assert dataclasses.replace(settings.bus, host="localhost") == Settings().bus
    assert dataclasses.replace(settings, bus=Settings().bus) == Settings()


def test_juno_file_starts_unedited():
    """A nova.conf of the Juno install guide yields its values, a transport URL and a line for each option that is gone."""
    juno = Parsed(GOLDEN / "juno_nova.conf")
    scheduler = juno.settings.scheduler
    assert scheduler.driver == "nova.scheduler.filter_scheduler.FilterScheduler"
    assert (scheduler.max_attempts, scheduler.host_subset_size) == (5, 3)
    assert scheduler.filters.enabled[:2] == ("RetryFilter", "AvailabilityZoneFilter")
    assert scheduler.filters.cpu_allocation_ratio == 8.0
    assert scheduler.weighers.ram_weight_multiplier == -1.0
    assert scheduler.weighers.metrics_weight_setting == ("cpu.percent=-1.0", "net = 0.5")
    assert juno.conf.transport_url == "rabbit://openstack:p%40ss%2Fw%25rd@10.0.0.11:5672/%2Fnova"
    assert juno.conf.oslo_messaging_rabbit.rabbit_retry_interval == 2
    assert juno.settings.bus.notification_drivers == ("messaging",)
    assert juno.settings.bus.notification_topics == ("notifications", "monitor")
    assert juno.settings.bus.notify_on_state_change == "vm_and_task_state"
    assert juno.settings.bus.compute_version_cap == "3.23"
    assert juno.settings.database.connection == "mysql://nova:s3cret@10.0.0.11/nova_sched"
    assert any(line.startswith("rpc_conn_pool_size has no effect") for line in juno.said)
    assert any("rabbit_host" in line and "transport_url" in line for line in juno.said)
    assert not any("p@ss" in line for line in juno.said)


@pytest.mark.parametrize(
    "text",
    [
        "[DEFAULT]\nscheduler_driver = chance\nscheduler_default_filters = RamFilter\nscheduler_host_subset_size = 4",
        "[scheduler]\ndriver = chance\n[filter_scheduler]\nenabled_filters = RamFilter\nhost_subset_size = 4",
    ],
)
def test_juno_and_later_names_mean_the_same(parsed, text):
    """The grouped names of later releases are aliases of Juno's."""
    scheduler = parsed(text).settings.scheduler
    assert (scheduler.driver, scheduler.filters.enabled, scheduler.host_subset_size) == (
        "chance",
        ("RamFilter",),
        4,
    )


def test_names_in_lists_are_trimmed_and_lists_may_be_empty(parsed):
    """Blanks and trailing commas are no names; an empty list stays empty instead of the default."""
    scheduler = parsed(
        "[DEFAULT]\nscheduler_default_filters = \nisolated_hosts = a , b,,\n"
        "scheduler_available_filters = my.Filter\nscheduler_available_filters = nova.scheduler.filters.all_filters"
    ).settings.scheduler
    assert scheduler.filters.enabled == ()
    assert scheduler.filters.isolated_hosts == ("a", "b")
    assert scheduler.filters.available == ("my.Filter", "nova.scheduler.filters.all_filters")


@pytest.mark.parametrize("size", ["0", "-1", "1"])
def test_subset_size_below_one_counts_as_one(parsed, size):
    """As in Juno, which accepted any number here."""
    assert parsed(f"[DEFAULT]\nscheduler_host_subset_size = {size}").settings.scheduler.host_subset_size == 1


@pytest.mark.parametrize(
    ("text", "option", "value"),
    [
        ("[DEFAULT]\nscheduler_max_attempts = 0", "scheduler_max_attempts", "0"),
        ("[scheduler]\nmax_attempts = -3", "scheduler_max_attempts", "-3"),
        ("[DEFAULT]\nram_allocation_ratio = lots", "ram_allocation_ratio", "lots"),
        ("[DEFAULT]\nram_allocation_ratio = nan", "ram_allocation_ratio", "nan"),
        ("[DEFAULT]\ncpu_allocation_ratio = -1", "cpu_allocation_ratio", "-1"),
        ("[DEFAULT]\nservice_down_time =", "service_down_time", ""),
        ("[DEFAULT]\nscheduler_driver =", "scheduler_driver", ""),
        ("[DEFAULT]\nnotify_on_state_change = all", "notify_on_state_change", "all"),
        ("[metrics]\nrequired = maybe", "metrics.required", "maybe"),
        ("[delivery]\nprefetch = 1e3", "delivery.prefetch", "1e3"),
        ("[delivery]\nbatch_max = 500", "delivery.batch_max", 500),
        ("[health]\nport = 70000", "health.port", "70000"),
        ("[upgrade_levels]\ncompute = grizzly", "upgrade_levels.compute", "grizzly"),
        ("[DEFAULT]\nrpc_backend = nova.openstack.common.rpc.impl_qpid", "rpc_backend", None),
        ("[DEFAULT]\nrabbit_host = a\nrabbit_port = amqp", "rabbit_port", "amqp"),
        ("[DEFAULT]\nrabbit_use_ssl = perhaps", "rabbit_use_ssl", "perhaps"),
    ],
)
def test_wrong_value_is_refused_with_option_value_and_expectation(parsed, text, option, value):
    """The start says what to correct, in one line."""
    with pytest.raises(ConfigurationError) as caught:
        parsed(text)
    assert caught.value.option == option
    assert value is None or caught.value.value == value
    assert caught.value.expected
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("interval", ["60", "90"])
def test_lp1255685_report_interval_that_reaches_the_down_time_is_refused(parsed, interval):
    """Hosts would count as down between two reports."""
    with pytest.raises(ConfigurationError, match="service_down_time"):
        parsed(f"[DEFAULT]\nreport_interval = {interval}\nservice_down_time = 60")


def test_lp1704788_own_driver_by_dotted_path_is_taken(parsed):
    """No list of choices stands between an operator and his own driver."""
    assert (
        parsed("[DEFAULT]\nscheduler_driver = my.mod.MyDriver").settings.scheduler.driver == "my.mod.MyDriver"
    )


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ("rabbit_host = h", "rabbit://guest:guest@h:5672/"),
        ("rabbit_hosts = h1:5673, h2\nrabbit_userid = u", "rabbit://u:guest@h1:5673,u:guest@h2:5672/"),
        ("rabbit_host = fd00::1", "rabbit://guest:guest@[fd00::1]:5672/"),
        ("rabbit_hosts = [fd00::1]:5673", "rabbit://guest:guest@[fd00::1]:5673/"),
        ("rabbit_host = h\nrabbit_virtual_host = cloud", "rabbit://guest:guest@h:5672/cloud"),
        ("rabbit_host = h\ntransport_url = rabbit://x:y@z:1/v", "rabbit://x:y@z:1/v"),
        ("rpc_backend = fake", "fake://"),
    ],
)
def test_old_broker_options_become_a_transport_url(parsed, options, url):
    """Juno's separate options and defaults, unless the file has a URL."""
    assert parsed(f"[DEFAULT]\n{options}").conf.transport_url == url


def test_unknown_file_is_a_configuration_error(tmp_path):
    """A missing --config-file is named."""
    with pytest.raises(ConfigurationError, match="absent"):
        build.parse(cfg.ConfigOpts(), ["--config-file", str(tmp_path / "absent.conf")])


def test_broken_file_is_a_configuration_error(parsed):
    """A line that is neither section nor option is named."""
    with pytest.raises(ConfigurationError, match="--config-file"):
        parsed("scheduler_driver = chance\n[DEFAULT\n")


def test_exchange_of_the_library_defaults_to_nova(parsed):
    """oslo.messaging's own default would meet no Nova service."""
    assert parsed("").conf.control_exchange == "nova"
    assert parsed("[DEFAULT]\ncontrol_exchange = cell7").settings.bus.control_exchange == "cell7"


def test_plugins_get_the_groups_they_are_given_and_no_others(parsed):
    """[plugins] option_groups hands sections over; other services' passwords stay in the file."""
    settings = parsed(
        "[plugins]\noption_groups = mine\n[mine]\nlevel = 3\n[neutron]\nadmin_password = x"
    ).settings
    assert dict(settings.extras) == {"mine.level": "3"}


def test_secrets_are_not_in_the_repr_of_settings(parsed):
    """Settings may be logged."""
    settings = parsed(
        "[database]\nconnection = mysql://u:s3cret@h/d\n[trusted_computing]\nattestation_auth_blob = s3cret"
    ).settings
    assert "s3cret" not in repr(settings)


def test_agents_of_one_machine_take_their_host_from_the_command_line(tmp_path):
    """``--host`` is stronger than the file that they share; programs without it refuse it."""
    path = tmp_path / "nova.conf"
    path.write_text("[DEFAULT]\nhost = shared\n")
    words = ["--config-file", str(path), "--host", "node-7"]
    conf = build.parse(cfg.ConfigOpts(), words, with_host=True)
    assert build.settings_from(conf).bus.host == "node-7"
    with pytest.raises(SystemExit):
        build.parse(cfg.ConfigOpts(), words)


def test_wrong_arguments_are_told_in_one_line(capsys):
    """The daemons' usage is not printed before what is wrong."""
    with pytest.raises(SystemExit) as stop:
        build.parse(cfg.ConfigOpts(), ["--frobnicate"], files=[], prog="nova-sched-scheduler")
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        "nova-sched-scheduler: error: unrecognized arguments: --frobnicate; see nova-sched-scheduler --help\n"
    )


@pytest.mark.parametrize("program", ["nova-sched-scheduler", "nova-sched-compute"])
def test_daemons_tell_their_version(capsys, program):
    """--version answers and ends, as that of the command lines does."""
    main = importlib.import_module(f"nova_sched.cmd.{program.rpartition('-')[2]}").main
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with pytest.raises(SystemExit) as stop:
            main(["--version"], cfg.ConfigOpts())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert not stop.value.code
    assert capsys.readouterr().out == f"{program} {version('nova_sched')}\n"
