"""What the whole-service rows stand on: one broker, the stores, a folder, and the subjects of a run."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import sql, subjects
from benchmarks.bus import Room
from benchmarks.sql import Store, Stores
from benchmarks.subjects import Subject
from nova_sched.testing.servers import RabbitServer


@dataclass(frozen=True, slots=True)
class Bed:
    """The private servers of a run; see :func:`bed`."""

    rabbit: RabbitServer
    stores: Stores
    folder: Path
    quick: bool

    @property
    def broker_pid(self) -> int:
        """Pid of the broker's process."""
        pid = self.rabbit.nodes[0]._process.pid
        assert pid is not None
        return pid

    def servers(self, store: Store | None) -> dict[str, int]:
        """Pids of broker and SQL server by name."""
        pids = {"broker": self.broker_pid}
        if store is not None and store.server_pid is not None:
            pids["SQL server"] = store.server_pid
        return pids

    @contextmanager
    def workers(
        self, room: Room, store: Store, count: int = 1, options: str = "", profile: Path | None = None
    ) -> Iterator[dict[str, Subject]]:
        """So many workers, serving; killed in the end if they are still there."""
        made = {
            f"worker {number}": subjects.worker(
                self.folder,
                room.url,
                store.url,
                quorum=room.quorum,
                number=number,
                options=options,
                profile=profile,
            )
            for number in range(1, count + 1)
        }
        try:
            yield made
        except Exception:
            for name, subject in made.items():
                print(f"{name} said last:", subject.last_words(), sep="\n", file=sys.stderr)
            raise
        finally:
            for subject in made.values():
                subject.kill()


@contextmanager
def bed(quick: bool) -> Iterator[Bed]:
    """Start the broker; SQL servers start when they are needed. All of it is gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="nova-sched-bench-") as folder,
        RabbitServer() as rabbit,
        sql.stores(Path(folder)) as stores,
    ):
        yield Bed(rabbit, stores, Path(folder), quick)


def stage_ms(ends: Sequence[Mapping[str, Any]], requests: int) -> dict[str, float]:
    """CPU ms per request of each stage of the loop and of each other thread, over all workers."""
    total: dict[str, float] = {}
    for end in ends:
        for stage, seconds in end["cpu_seconds"].items():
            total[stage] = total.get(stage, 0.0) + seconds * 1000 / requests
        for thread, name in (("bus-scheduler", "consumer thread"), ("notifier", "notifier thread")):
            total[name] = total.get(name, 0.0) + end["threads"].get(thread, 0.0) * 1000 / requests
    return total
