"""The dashboard and the alert rules load, name only metrics and labels there are, and their queries are well formed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nova_sched.health.catalogue import CATALOGUE, PREFIX, full_name

FOLDER = Path(__file__).parents[3] / "grafana"
DASHBOARD = json.loads((FOLDER / "nova-sched.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]

#: Name as scraped → labels there are, ``le`` of buckets among them.
SCRAPED = {}
for _name, _metric in CATALOGUE.items():
    _labels = {*_metric.labels, *({"pid"} if _metric.mode == "liveall" and _metric.kind == "gauge" else ())}
    if _metric.kind == "histogram":
        SCRAPED[f"{full_name(_name)}_bucket"] = {*_labels, "le"}
        SCRAPED[f"{full_name(_name)}_sum"] = SCRAPED[f"{full_name(_name)}_count"] = _labels
    else:
        SCRAPED[full_name(_name)] = _labels
#: Given by Prometheus to every sample.
TARGET = {"job", "instance"}
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def queries() -> Iterator[tuple[str, str]]:
    """Where and what: every query of dashboard and rules."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for rule in RULES:
        yield rule["alert"], rule["expr"]


@pytest.mark.parametrize(("where", "query"), list(queries()))
def test_a_query_is_well_formed_and_names_metrics_and_labels_there_are(where: str, query: str):
    found = re.findall(rf"({PREFIX}\w+)(\{{[^}}]*\}})?", query)
    assert found, query
    open_brackets: list[str] = []
    for sign in re.sub(r'"[^"]*"', "", query):
        if sign in "([{":
            open_brackets.append(sign)
        elif sign in _BRACKETS:
            assert open_brackets.pop() == _BRACKETS[sign], query
    assert not open_brackets, query
    labels = set()
    for name, selector in found:
        assert name in SCRAPED, f"{name} in {where}"
        labels |= SCRAPED[name]
        for label, value in re.findall(r'(\w+)=~?"([^"]*)"', selector):
            assert label in SCRAPED[name] | TARGET, f"{label} of {name}"
            assert value
        if name.endswith("_total"):
            assert re.search(rf"(rate|increase)\({name}", query), f"{name} is a counter, in {where}"
    for grouped in re.findall(r"by \(([^)]*)\)", query):
        assert {one.strip() for one in grouped.split(",")} <= labels | TARGET, query
    assert ("histogram_quantile" in query) == ("_bucket" in query)


def test_each_panel_says_what_it_shows_with_legends_of_labels_there_are():
    for panel in DASHBOARD["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["description"].endswith(".")
        for target in panel["targets"]:
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert re.search(rf"\b{label}\b", target["expr"]), target


def test_panels_neither_overlap_nor_share_an_id():
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_metric_that_an_operator_counts_by_is_on_the_dashboard():
    shown = " ".join(query for _, query in queries())
    hidden = {"host_state_read_monotonic_seconds", "loop_monotonic_seconds"}  # the probes' own
    assert {name for name in CATALOGUE if f"{PREFIX}{name}" not in shown} <= hidden


def test_each_alert_says_what_suffers_and_what_to_do():
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))
    for rule in RULES:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert all(text.strip() for text in rule["annotations"].values())
