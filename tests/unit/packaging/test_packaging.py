"""What is installed: entry points, requirements, files for operators."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nova_sched.cmd.demo_world import EMBEDDED, RABBITMQ

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "nova_sched").rglob("*.py"))


def setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of groups are case-sensitive
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def entry_points() -> list[EntryPoint]:
    found = []
    for group, lines in setup_cfg()["entry_points"].items():
        for line in lines.split("\n"):
            if line:
                name, _, value = line.partition("=")
                found.append(EntryPoint(name.strip(), value.strip(), group))
    return found


def requirements(name: str) -> dict[str, Requirement]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    words = [line.partition(" #")[0].strip() for line in lines if line.strip() and not line.startswith("#")]
    return {canonicalize_name(Requirement(word).name): Requirement(word) for word in words}


@pytest.mark.parametrize("entry", entry_points(), ids=lambda entry: f"{entry.group}:{entry.name}")
def test_entry_point_loads(entry: EntryPoint) -> None:
    """What setup.cfg promises exists."""
    assert entry.load() is not None


def test_entry_point_names_are_unique() -> None:
    """A name given twice would load whichever comes first."""
    names = [(entry.group, entry.name) for entry in entry_points()]
    assert sorted(names) == sorted(set(names))


def test_modules_stay_readable() -> None:
    """No module is longer than 400 lines."""
    long = {
        str(path.relative_to(ROOT)): lines
        for path in MODULES
        if (lines := len(path.read_text().splitlines())) > 400
    }
    assert long == {}


def optional_packages() -> set[str]:
    """Packages of the extras in setup.cfg; code that uses them has to do without."""
    lines = [line for value in setup_cfg()["extras"].values() for line in value.splitlines() if line.strip()]
    return {canonicalize_name(Requirement(line.partition(" #")[0].strip()).name) for line in lines}


def test_every_import_is_declared() -> None:
    """Third-party packages the service imports stand in requirements.txt or are extras; test-only ones are used under testing/ alone."""
    declared = set(requirements("requirements.txt")) | optional_packages()
    for_tests = requirements("test-requirements.txt")
    distributions = packages_distributions()
    undeclared = set()
    for path in MODULES:
        for top in imported_packages(path):
            if top in sys.stdlib_module_names or top in ("nova_sched", "nova"):
                continue
            names = {canonicalize_name(name) for name in distributions.get(top, [top])}
            allowed = set(declared) | (set(for_tests) if "testing" in path.parts else set())
            if not names & allowed:
                undeclared.add(f"{path.relative_to(ROOT)}: {top}")
    assert undeclared == set()


def test_requirements_have_lower_bounds() -> None:
    """Each requirement says from which release on it was tried; the driver's base class is capped."""
    for file in ("requirements.txt", "test-requirements.txt", "doc/requirements.txt"):
        for name, requirement in requirements(file).items():
            assert any(part.operator == ">=" for part in requirement.specifier), f"{file}: {name}"
    assert "19" not in requirements("requirements.txt")["oslo-messaging"].specifier


def test_license_is_whole() -> None:
    """The licence that setup.cfg names is shipped."""
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert setup_cfg()["metadata"]["license"] == "Apache-2.0"


def test_units_start_programs_that_exist() -> None:
    """Each systemd unit runs one of our console scripts, as its own user, and reloads by SIGHUP."""
    programs = {entry.name for entry in entry_points() if entry.group == "console_scripts"}
    units = sorted((ROOT / "etc/systemd").glob("*.service"))
    assert {unit.stem for unit in units} == {"nova-sched-scheduler", "nova-sched-compute"}
    for unit in units:
        parser = configparser.ConfigParser(interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read(unit, encoding="utf-8")
        program = Path(parser["Service"]["ExecStart"].split()[0]).name
        assert program == unit.stem
        assert program in programs
        assert parser["Service"]["User"] == "nova-sched"
        assert "HUP" in parser["Service"]["ExecReload"]


def test_logging_sample_loads() -> None:
    """The sample is a configuration that the logging module takes; our loggers speak, the rest is quiet."""
    sample = ROOT / "etc/nova-sched/logging_sample.conf"
    program = (
        "import logging\n"
        "from oslo_config import cfg\n"
        "from oslo_log import log\n"
        "log.register_options(cfg.CONF)\n"
        f"cfg.CONF(['--log-config-append', {str(sample)!r}], default_config_files=[])\n"
        "log.setup(cfg.CONF, 'nova_sched')\n"
        "logging.getLogger('nova_sched.x').info('spoken')\n"
        "logging.getLogger('other').error('dropped')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in done.stderr.splitlines()] == ["spoken"]


def test_logrotate_covers_the_log_folder() -> None:
    """The folder that the units make is the one that is rotated."""
    text = (ROOT / "etc/logrotate.d/nova-sched").read_text(encoding="utf-8")
    assert text.startswith("/var/log/nova-sched/*.log {")
    for unit in (ROOT / "etc/systemd").glob("*.service"):
        assert "LogsDirectory=nova-sched\n" in unit.read_text(encoding="utf-8")


def test_sample_configuration_names_every_group() -> None:
    """The committed sample knows each group that the options define."""
    from nova_sched.conf.opts import list_opts

    sample = (ROOT / "etc/nova-sched/nova-sched.conf.sample").read_text(encoding="utf-8")
    groups = {str(group) for group, _ in list_opts() if group}
    assert groups <= set(re.findall(r"^\[(.+)\]$", sample, re.MULTILINE))


def test_tox_and_make_run_the_same_checks() -> None:
    """Each linter of `make lint` is in tox's environment too."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile[makefile.index("\nlint:") :].split("\n\n")[0]
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    commands = tox["testenv:lint"]["commands"]
    for tool in re.findall(r"\$\(BIN\)/([a-z-]+)", recipe):
        assert tool in commands
    assert "shellcheck" in commands


def test_make_demo_names_buses_that_the_demo_knows() -> None:
    """The default of the Makefile once was a word that the program refused."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"^BUS \?= (.*)$", makefile, re.MULTILINE) == [EMBEDDED]
    assert f"make demo BUS={RABBITMQ}" in (ROOT / "README.rst").read_text(encoding="utf-8")


def test_every_ruff_exception_has_its_reason() -> None:
    """A rule is switched off only with a comment that says why."""
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    settings = tomllib.loads("\n".join(lines))["tool"]["ruff"]["lint"]
    for code in settings["ignore"]:
        assert any(re.match(rf'\s*"{code}",\s+# \w', line) for line in lines), code


def imported_packages(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
