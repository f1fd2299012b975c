"""How long a worker takes to serve, and how much memory it holds."""

from __future__ import annotations

from benchmarks.bed import Bed
from benchmarks.bus import Room
from benchmarks.drain import together
from benchmarks.results import Results

SUBJECT = "1 worker sqlite"


def start(results: Results, bed: Bed) -> None:
    """From the imports to serving with every host loaded; the imports are a figure of their own."""
    for hosts in (10_000,) if bed.quick else (1000, 10_000, 100_000):
        store = bed.stores.get("sqlite", hosts)
        imports, starts, resident = [], [], []
        for _ in range(2 if bed.quick else 5):
            with Room(bed.rabbit) as room, bed.workers(room, store) as workers:
                (said,) = together(list(workers.values()))
                imports.append(said["import_seconds"])
                starts.append(said["start_seconds"])
                resident.append(workers["worker 1"].usage.rss_mb)
        results.add("start", hosts, SUBJECT, "imports", imports, "s")
        results.add("start", hosts, SUBJECT, "loaded and serving", starts, "s")
        results.add("start", hosts, SUBJECT, "RSS", resident, "MiB")
