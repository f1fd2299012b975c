"""Writes the outputs that the pages on explain, capacity and simulate show: ``python doc/tools/operate_examples.py``.

The cloud is made up here; the commands are the real ones, run in this process at 100 columns. What changes from run to run
(ids of requests, speed) is left out.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from oslo_config import cfg

from nova_sched.cmd import client

FOLDER = Path(__file__).parents[1] / "source" / "operate" / "examples"
NOW = "2026-12-01T12:00:00.000000"

#: File name → command lines; each is shown after a prompt, then what it prints.
EXAMPLES = {
    "explain": ["nova-sched explain --export cloud.json --vcpus 2 --ram 16384 --zone north"],
    "explain-no-host": ["nova-sched explain --export cloud.json --vcpus 2 --ram 49152"],
    "explain-ratio": [
        "nova-sched explain --export cloud.json --ram 24576 --zone north --set ram_allocation_ratio=2.0"
    ],
    "capacity": [
        "nova-sched capacity --export cloud.json --vcpus 2 --ram 8192 --disk 20 --plot capacity.svg"
    ],
    "capacity-ratio": [
        "nova-sched capacity --export cloud.json --vcpus 2 --ram 8192 --set ram_allocation_ratio=1.5"
    ],
    "simulate": [
        "nova-sched simulate --synthetic 6000 --hosts hosts.csv --config-file packing.conf --compare policies"
        " --html report.html --csv moments.csv"
    ],
    "simulate-fewest": [
        "nova-sched simulate --synthetic 2000 --hosts hosts.csv --config-file packing.conf"
        " --compare ram_weight_multiplier=-1 --fewest-hosts"
    ],
}
CONF = """[DEFAULT]
scheduler_default_filters = AvailabilityZoneFilter, RamFilter, CoreFilter, ComputeFilter
cpu_allocation_ratio = 1.0
ram_allocation_ratio = 1.0
"""


def main() -> int:
    """Write all files; the exit code is 1 if a command failed for another reason than "no host"."""
    os.environ["COLUMNS"] = "100"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, chdir(temporary):
        Path("cloud.json").write_text(json.dumps({"input": _cloud()}))
        Path("packing.conf").write_text(CONF)
        Path("hosts.csv").write_text("\n".join(_inventory()) + "\n")
        for name, lines in EXAMPLES.items():
            text = "".join(_shown(line) for line in lines)
            (FOLDER / f"{name}.txt").write_text(text)
        (FOLDER / "capacity.svg").write_bytes(Path("capacity.svg").read_bytes())
    return 0


def _shown(line: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = client.main(shlex.split(line)[1:], cfg.ConfigOpts())
    if code not in (0, 1):
        sys.exit(f"{line}\nexits with {code}:\n{out.getvalue()}")
    kept = [text.rstrip() for text in out.getvalue().splitlines() if not text.startswith("Per second")]
    body = re.sub(r" \([0-9a-f]{8}-[0-9a-f-]{27}\)", "", "\n".join(kept))
    return f"$ {line}\n{body}\n"


def _cloud() -> dict[str, Any]:
    """Six hosts in two zones; one is silent, one disabled, one nearly full."""
    used = {"rack1-1": (12, 20480), "rack1-2": (4, 8192), "rack1-3": (15, 30720), "rack2-1": (2, 4096)}
    hosts = []
    for name in ("rack1-1", "rack1-2", "rack1-3", "rack2-1", "rack2-2", "rack2-3"):
        vcpus, ram = used.get(name, (0, 0))
        hosts.append(
            {
                "host": name,
                "hypervisor_hostname": name,
                "vcpus": 16,
                "memory_mb": 32768,
                "local_gb": 500,
                "vcpus_used": vcpus,
                "free_ram_mb": 32768 - ram,
                "free_disk_gb": 500,
                "updated_at": None,
                "service": {
                    "host": name,
                    "disabled": name == "rack2-2",
                    "updated_at": "2026-12-01T11:40:00" if name == "rack2-3" else NOW,
                },
            }
        )
    zones = {"north": "rack1", "south": "rack2"}
    aggregates = [
        {
            "name": rack,
            "hosts": [row["host"] for row in hosts if row["host"].startswith(rack)],
            "metadata": {"availability_zone": zone},
        }
        for zone, rack in zones.items()
    ]
    config = {
        "scheduler_default_filters": "AvailabilityZoneFilter,RamFilter,CoreFilter,ComputeFilter",
        "cpu_allocation_ratio": 4.0,
        "ram_allocation_ratio": 1.0,
    }
    return {"now": NOW, "hosts": hosts, "aggregates": aggregates, "config": config, "requests": []}


def _inventory() -> Iterator[str]:
    yield "host,vcpus,memory_mb"
    for number in range(210):
        vcpus, ram_gb = ((96, 384), (64, 256), (32, 256))[number % 3]
        yield f"host-{number:03d},{vcpus},{ram_gb * 1024}"


if __name__ == "__main__":
    sys.exit(main())
