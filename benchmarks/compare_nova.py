"""Nova's own filters and weighers, timed in an environment of their own that is made when it is first needed."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from benchmarks.checks import WrongOutcome
from benchmarks.results import FOLDER, OUT, Results

REQUIREMENT = "nova==34.0.0"
SUBJECT = FOLDER / "nova_subject.py"


def environment(folder: Path = OUT / "nova-venv") -> Path:
    """The interpreter of an environment that has Nova. Raises CalledProcessError when it cannot be installed."""
    python = folder / "bin" / "python"
    stamp = folder / "requirement"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != REQUIREMENT:
        venv.create(folder, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", REQUIREMENT]
        subprocess.run(install, check=True, stdout=sys.stderr)
        stamp.write_text(REQUIREMENT, encoding="utf-8")
    return python


def measure(results: Results, quick: bool) -> None:
    """One decision of Nova at each size, and how much faster the engine was in the same run."""
    python = environment()
    for hosts in (1000, 10_000) if quick else (1000, 5000, 10_000):
        samples = "3" if quick else "7"
        # -P: the modules of this folder have common names and would hide others.
        command = [str(python), "-P", str(SUBJECT), "--hosts", str(hosts), "--samples", samples]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
        if not str(found["winner"]).startswith("host-"):
            raise WrongOutcome(f"Nova chose {found['winner']}")
        row = results.add("basic", hosts, f"Nova {found['version']}", "decision", found["samples_ms"], "ms")
        ours = results.find("basic", "engine", "decision", hosts)
        if ours is not None:
            results.add("basic", hosts, "engine / Nova", "speedup", row.median / ours.median, "times")
