"""The configuration files as they are written: for options that nobody registered."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from oslo_config import cfg

from nova_sched.conf.section import option_name


def config_files(conf: cfg.ConfigOpts) -> list[Path]:
    """Files that ``conf`` was parsed from, in the order in which later ones win."""
    files = [Path(name) for name in conf.config_file]
    for folder in conf.config_dir:
        files.extend(sorted(Path(folder).glob("*.conf")))
    return files


def written_options(conf: cfg.ConfigOpts) -> dict[tuple[str, str], list[str]]:
    """Texts by (group, name) of all options that the files of ``conf`` hold, known or not."""
    written: dict[tuple[str, str], list[str]] = {}
    for path in config_files(conf):
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(str(path), sections).parse()
        for group, values in sections.items():
            written.update({(group, name): texts for name, texts in values.items()})
    return written


def values_of_groups(conf: cfg.ConfigOpts, groups: Collection[str]) -> dict[str, str]:
    """``group.name`` to the last text given, of some groups."""
    return {
        option_name(group, name): texts[-1]
        for (group, name), texts in written_options(conf).items()
        if group in groups
    }
