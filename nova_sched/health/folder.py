"""The folder through which the workers of one service share their metrics (prometheus_client's multiprocess mode).

The parent makes it before any worker is forked and holds a lock on it for as long as a process of the service lives, so
that what a killed service left behind is told from what belongs to a neighbour, and is removed at the next start.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_STEM = "nova-sched-metrics-"
_LOCK = "lock"
_GAUGE_OF_PROCESS = re.compile(r"gauge_live[a-z]+_(\d+)\.db")


def make_folder(parent: str | None = None) -> Path:
    """Make the shared folder, name it in the environment and remove it when this process exits in good order.

    Must run before prometheus_client is imported, and before the workers are forked: they inherit the lock.
    """
    base = Path(parent or tempfile.gettempdir())
    for left in stale_folders(base):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_STEM, dir=base))
    lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.environ[FOLDER_VARIABLE] = str(folder)
    atexit.register(_remove, folder, os.getpid())
    return folder


def stale_folders(base: Path) -> Iterator[Path]:
    """Folders of services of which no process lives any more; those of other users are left alone."""
    for folder in base.glob(f"{_STEM}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid() and not _locked(folder):
                yield folder


def forget_dead(folder: str | os.PathLike[str] | None = None) -> None:
    """Drop the gauges of workers that are gone; their counters stay in the sums."""
    base = Path(folder or os.environ[FOLDER_VARIABLE])
    for file in base.glob("gauge_live*.db"):
        found = _GAUGE_OF_PROCESS.fullmatch(file.name)
        if found and not _alive(int(found.group(1))):
            file.unlink(missing_ok=True)


def _locked(folder: Path) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        # Made this very moment, or by hand: not ours to remove yet.
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
