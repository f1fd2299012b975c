"""The examples of doc/source/filters.rst and weighers.rst are true, and no plugin is left out."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from nova_sched.model.facts import Facts
from nova_sched.model.numa import InstanceCell, InstanceTopology
from nova_sched.model.pci import PciRequest
from nova_sched.plugins import registry
from nova_sched.testing import builders, deciding

DOCUMENTS = Path(__file__).parents[3] / "doc" / "source"
NAMES = {
    **{name: getattr(builders, name) for name in ("aggregate", "group", "host", "instance", "request")},
    **{name: getattr(deciding, name) for name in ("decide", "passing", "reason_of", "settings", "weights")},
    "Facts": Facts,
    "InstanceCell": InstanceCell,
    "InstanceTopology": InstanceTopology,
    "PciRequest": PciRequest,
}


@pytest.mark.parametrize("name", ["filters.rst", "weighers.rst"])
def test_examples_are_true(name):
    """Each is executed as it is written."""
    found = doctest.DocTestParser().get_doctest((DOCUMENTS / name).read_text(), dict(NAMES), name, name, 0)
    report: list[str] = []
    result = doctest.DocTestRunner().run(found, out=report.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(report)


@pytest.mark.parametrize("kind", ["filters", "weighers"])
def test_every_plugin_is_documented_with_an_example(kind):
    """A heading of its own and at least one example that names it."""
    text = (DOCUMENTS / f"{kind}.rst").read_text()
    for source in registry.known(kind):
        name = source.path.rpartition(":")[2]
        assert f"\n{name}\n{'-' * len(name)}\n" in text
        assert f'"{name}"' in text
