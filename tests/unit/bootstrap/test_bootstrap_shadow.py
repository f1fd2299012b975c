"""The reloader's shadow configuration: read on top of the service's own, validated, swapped with it, never half."""

from __future__ import annotations

from pathlib import Path

import pytest
from oslo_config import cfg

from nova_sched.bootstrap.reloading import Reloader
from nova_sched.conf import build
from nova_sched.errors import ConfigurationError

MAIN = """[DEFAULT]
transport_url = fake://
scheduler_default_filters = RamFilter
ram_allocation_ratio = 1.0
[scheduler]
shadow_config_file = {shadow}
"""


class Files:
    """A configuration with its shadow."""

    def __init__(self, folder: Path) -> None:
        self.main, self.shadow = folder / "main.conf", folder / "shadow.conf"
        self.main.write_text(MAIN.format(shadow=self.shadow))
        self.shadow.write_text("[DEFAULT]\nram_allocation_ratio = 2.0\n")

    def reloader(self) -> Reloader:
        args = ["--config-file", str(self.main)]
        conf = build.parse(cfg.ConfigOpts(), args, say=lambda line: None)
        return Reloader(args, build.settings_from(conf))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_the_shadow_is_the_service_s_configuration_with_its_own_file_on_top(files: Files):
    reloader = files.reloader()
    assert reloader.shadow is not None
    assert reloader.settings.scheduler.filters.ram_allocation_ratio == 1.0
    assert reloader.shadow.filters.ram_allocation_ratio == 2.0
    assert reloader.shadow.filters.enabled == ("RamFilter",)


def test_a_wrong_shadow_is_refused_at_the_start_with_its_option_named(files: Files):
    files.shadow.write_text("[DEFAULT]\nram_allocation_ratio = much\n")
    with pytest.raises(ConfigurationError, match=r"scheduler\.shadow_config_file.*ram_allocation_ratio"):
        files.reloader()
    files.shadow.unlink()
    with pytest.raises(ConfigurationError):
        files.reloader()


def test_a_changed_shadow_is_taken_and_switched_on_again(files: Files):
    reloader = files.reloader()
    reloader.shadow_off.value = True
    files.shadow.write_text("[DEFAULT]\nram_allocation_ratio = 3.0\n")
    assert reloader.reload()
    assert reloader.shadow is not None
    assert reloader.shadow.filters.ram_allocation_ratio == 3.0
    assert not reloader.shadow_off.value
    assert not reloader.refused


def test_a_wrong_shadow_at_a_reload_keeps_both_sets(files: Files):
    reloader = files.reloader()
    settings, shadow = reloader.settings, reloader.shadow
    files.main.write_text(MAIN.format(shadow=files.shadow).replace("1.0", "1.5"))
    files.shadow.write_text("[DEFAULT]\nscheduler_default_filters = NoSuchFilter\n")
    assert not reloader.reload()
    assert reloader.refused
    assert (reloader.settings, reloader.shadow) == (settings, shadow)


def test_taking_the_option_out_ends_the_shadow(files: Files):
    reloader = files.reloader()
    files.main.write_text(MAIN.partition("[scheduler]")[0])
    assert reloader.reload()
    assert reloader.shadow is None
    assert reloader.settings.shadow_config_file is None
