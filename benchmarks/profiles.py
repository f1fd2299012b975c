"""Where the loop's thread spends its time: cProfile on its own CPU clock, while a queue is worked off."""

from __future__ import annotations

import io
import pstats
from pathlib import Path

from benchmarks.bed import Bed
from benchmarks.bus import Room
from benchmarks.drain import drain, together
from benchmarks.results import FOLDER, OUT, Results

HOSTS = 5000
LINES = 40


def profile(results: Results, bed: Bed) -> None:
    """Write ``out/profile.txt`` and name the share of each room of the house.

    The profiler makes calls dearer than they are, so its shares are for finding things, not for adding up.
    """
    requests = 1000 if bed.quick else 3000
    raw = bed.folder / "profile"
    store = bed.stores.get("sqlite", HOSTS)
    with Room(bed.rabbit) as room:
        room.fill(0, requests)
        with bed.workers(room, store, profile=raw) as workers:
            together(list(workers.values()))
            drain(room, requests, workers, bed.servers(store))
            for worker in workers.values():
                worker.stop()
    text = io.StringIO()
    stats = pstats.Stats(str(raw), stream=text)
    stats.sort_stats("tottime").print_stats(LINES)
    stats.sort_stats("cumtime").print_stats(LINES)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "profile.txt").write_text(text.getvalue(), encoding="utf-8")
    total = float(stats.total_tt)  # type: ignore[attr-defined]
    for where, seconds in sorted(_by_room(stats).items(), key=lambda item: -item[1]):
        results.add("profile", HOSTS, "1 worker sqlite", f"share of {where}", 100 * seconds / total, "%")


def _by_room(stats: pstats.Stats) -> dict[str, float]:
    """Own seconds of functions by package of ours, by library, or builtin."""
    rooms: dict[str, float] = {}
    house = FOLDER.parent / "nova_sched"
    entries = stats.stats  # type: ignore[attr-defined]
    for (file, _, _), (_, _, own, _, _) in entries.items():
        path = Path(file)
        if path.is_relative_to(house):
            where = path.relative_to(house).parts[0].removesuffix(".py")
        elif "site-packages" in path.parts:
            where = path.parts[path.parts.index("site-packages") + 1]
        else:
            where = "Python"
        rooms[where] = rooms.get(where, 0.0) + own
    return {where: seconds for where, seconds in rooms.items() if seconds > 0.005 * stats.total_tt}  # type: ignore[attr-defined]
