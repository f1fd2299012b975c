"""Every metric that code counts is in the catalogue with its kind and labels, and every one there is counted somewhere."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import nova_sched
from nova_sched.health.catalogue import CATALOGUE, full_name

ROOT = Path(nova_sched.__file__).parent
KINDS = {"count": "counter", "observe": "histogram", "gauge": "gauge"}


def told() -> Iterator[tuple[str, str, str, frozenset[str]]]:
    """Place, kind, name and labels of each call that names a metric."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called, first = node.func, node.args[0]
            verb = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            owner = ast.unparse(called.value) if isinstance(called, ast.Attribute) else "gauges"
            named = isinstance(first, ast.Constant) and isinstance(first.value, str)
            if verb in KINDS and named and ("observer" in owner or "gauges" in owner or owner == "self"):
                labels = frozenset(keyword.arg for keyword in node.keywords if keyword.arg)
                yield f"{path.relative_to(ROOT)}:{node.lineno}", KINDS[verb], first.value, labels - {"amount"}


def test_what_code_counts_is_in_the_catalogue_with_its_kind_and_labels():
    wrong = []
    for place, kind, name, labels in told():
        metric = CATALOGUE.get(name)
        if metric is None or metric.kind != kind or labels != set(metric.labels):
            wrong.append(f"{place}: {kind} {name} {sorted(labels)}, catalogue: {metric}")
    assert not wrong


def test_everything_in_the_catalogue_is_counted_somewhere():
    places = defaultdict(list)
    for place, _, name, _ in told():
        places[name].append(place)
    assert set(CATALOGUE) - set(places) == set()


def test_the_documentation_lists_every_metric():
    listed = (ROOT.parent / "doc" / "source" / "operate" / "examples" / "metrics.inc").read_text()
    for name, metric in CATALOGUE.items():
        assert f"``{full_name(name)}``" in listed
        assert metric.help in listed


def test_each_metric_says_what_it_is():
    for name, metric in CATALOGUE.items():
        assert metric.help.strip().endswith("."), name
        assert (metric.kind == "histogram") == bool(metric.buckets), name
