"""Reports: numbers, CSV, and a page that needs nothing else."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.lab import report, report_charts
from nova_sched.lab.policies import policy_driver
from nova_sched.lab.report import Contender
from nova_sched.lab.simulate import Simulation
from tests.unit.lab.test_simulate import TIGHT, fleet, guests

MADE = guests((4, 4, 0, 86400), (4, 4, 0, 100), (8, 8, 50, 100), (8, 8, 200, 300))
HOSTS = fleet((8, 16), (8, 16))


@pytest.fixture(scope="module")
def contenders() -> list[Contender]:
    """Spreading refuses the third guest, best fit nobody."""
    drivers = {"spread <&>": FilterDriver.from_settings(TIGHT), "best-fit": policy_driver("best-fit", TIGHT)}
    return [
        Contender(Simulation(name, MADE, HOSTS, driver, samples=9).run(), {"option": [1, 2]}, 0.5)
        for name, driver in drivers.items()
    ]


def test_the_summary_counts(contenders: list[Contender]) -> None:
    """Placed, refused, most hosts and what the bound was then."""
    spread, best = (report.summary(one) for one in contenders)
    assert (spread["placed"], spread["refused"], spread["refused_by"]) == (3, 1, {"CoreFilter": 1})
    assert (best["placed"], best["refused"]) == (4, 0)
    assert (spread["peak_hosts_used"], spread["per_second"]) == (2, 8.0)
    assert spread["packing"] > best["packing"] >= 1.0
    assert (
        json.loads(json.dumps(report.as_plain(MADE, contenders)))["contenders"][0]["refusals"][0]["count"]
        == 1
    )


def test_samples_and_placements_are_tables(contenders: list[Contender]) -> None:
    """One line per contender and moment; one per guest, with the reason where it got no host."""
    samples, placements = io.StringIO(), io.StringIO()
    report.write_samples(samples, contenders)
    report.write_placements(placements, MADE, ["h0", "h1"], contenders)
    rows = list(csv.DictReader(io.StringIO(samples.getvalue())))
    assert len(rows) == 18
    assert rows[0]["hosts_used"] == "2"
    guest = list(csv.DictReader(io.StringIO(placements.getvalue())))[2]
    assert (guest["spread <&> host"], guest["best-fit host"]) == ("", "h1")
    assert "CoreFilter" in guest["spread <&> reason"]


class _Links(HTMLParser):
    """Collects what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag in ("script", "link", "img", "iframe") or "src" in names or "href" in names:
            self.loaded.append(tag)


def test_the_page_loads_nothing_and_escapes_names(contenders: list[Contender]) -> None:
    """No scripts, links or images; names are text; charts and both colour schemes are there."""
    page = report.page(MADE, "fleet <x>", contenders)
    links = _Links()
    links.feed(page)
    assert links.loaded == []
    assert "spread &lt;&amp;&gt;" in page
    assert "fleet &lt;x&gt;" in page
    assert page.count("<svg") == 6
    assert "prefers-color-scheme:dark" in page


def test_charts_are_well_formed_and_draw_gaps() -> None:
    """A value that is not finite breaks the line in two."""
    series = report_charts.Series("<a>", [0, 1, 2, 3], [1.0, float("nan"), 2.0, 3.0])
    root = ET.fromstring(report_charts.lines("T & t", [series], "x", "y"))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points", "").split()) for line in lines] == [1, 2]
    file = report_charts.standalone(report_charts.bars("B", [("n", 3.0), ("m", 0.0)]))
    ET.fromstring(file.encode())
    assert "<style>" in file


def test_a_trace_without_guests_is_no_fault() -> None:
    """Nothing to divide by."""
    empty = guests()
    found = Contender(Simulation("none", empty, HOSTS, FilterDriver.from_settings(TIGHT)).run(), {}, 0.0)
    assert report.summary(found)["packing"] is None
    assert "<svg" in report.page(empty, "fleet", [found])
