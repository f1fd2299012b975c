"""Writes the outputs that the pages on observing, reloading and the doctor show: ``python doc/tools/operating_examples.py``.

They come from a service over a private RabbitMQ with three agents, the one that ``tests/integration`` operates. What changes
from run to run (ids, ports, folders) is replaced by what a reader would have.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from nova_sched.health.catalogue import CATALOGUE, full_name  # noqa: E402
from nova_sched.testing.servers import RabbitServer  # noqa: E402
from tests.integration.operating.bed import Cloud, open_cloud, until  # noqa: E402
from tests.integration.test_operating import CHROMIUM  # noqa: E402

FOLDER = ROOT / "doc" / "source" / "operate" / "examples"
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_LONG_ID = re.compile(r"\b7\d{18}\b")


class Book:
    """Writes files of outputs, with the same ids in every run."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._spread = random.Random(1)
        self._known: dict[str, str] = {}

    def commands(self, name: str, *lines: str) -> None:
        """Prompt, command and output of each line."""
        self.text(name, "\n".join(self._shown(line) for line in lines))

    def text(self, name: str, text: str) -> None:
        """A file of its own."""
        (FOLDER / f"{name}.txt").write_text(self._settled(text).rstrip() + "\n")

    def _shown(self, line: str) -> str:
        said = self._cloud.run(line)
        if said.code not in (0, 1):
            sys.exit(f"{line}\nexits with {said.code}:\n{said.err}")
        body = "\n".join(text.rstrip() for text in (said.out + said.err).rstrip().splitlines())
        return f"$ {line}\n{body}\n"

    def _settled(self, text: str) -> str:
        folder = re.escape(str(self._cloud.folder))
        text = re.sub(rf"{folder}/(\w+)\.conf", r"/etc/nova-sched/\1.conf", text)
        text = "\n".join(self._named(line) for line in text.split("\n"))
        text = _LONG_ID.sub(
            lambda found: self._id(
                found.group(), lambda: str(self._spread.randrange(7 * 10**18, 8 * 10**18))
            ),
            text,
        )
        return _UUID.sub(
            lambda found: self._id(
                found.group(), lambda: str(uuid.UUID(int=self._spread.getrandbits(128), version=4))
            ),
            text,
        )

    def _named(self, line: str) -> str:
        """Ports and virtual host of a reader; cells of tables keep their width."""
        for found, shown in (
            (rf":{self._cloud.port}\b", ":9474"),
            (r"(?<=127\.0\.0\.1):(?!9474\b)\d+", ":5672"),
            (r"virtual host v\d+", "virtual host /"),
        ):
            match = re.search(found, line)
            if match:
                rest = line[match.end() :]
                if line.startswith("|"):
                    rest = rest.replace(" |", " " * (len(match.group()) - len(shown)) + " |", 1)
                line = line[: match.start()] + shown + rest
        return line

    def _id(self, found: str, make: Callable[[], str]) -> str:
        return self._known.setdefault(found, make())


def main() -> int:
    """Write all files."""
    os.environ["COLUMNS"] = "110"
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "metrics.inc").write_text(_metrics())
    with tempfile.TemporaryDirectory() as temporary, RabbitServer() as rabbit:
        os.environ["HANG_FILE"] = f"{temporary}/hang"
        with open_cloud(Path(temporary), rabbit.transport_url(rabbit.create_vhost())) as cloud:
            _write(cloud, Book(cloud))
    return 0


def _write(cloud: Cloud, book: Book) -> None:
    for ram_mb in (2048, 4096, 512, 8192):
        cloud.run(f"nova-sched boot vm --ram {ram_mb} --wait 20")
    cloud.run("nova-sched boot vm --ram 512 --force-host alder --user ann --wait 20")
    refused = _boot(cloud, "--ram 40000 --vcpus 2")
    time.sleep(2.5)
    book.commands("top", "nova-sched top --once")
    book.commands("decision-list", "nova-sched decision list --limit 3")
    book.commands("decision-show", f"nova-sched decision show --instance {refused}")
    book.commands("shadow-report", "nova-sched-manage shadow report --limit 3")
    book.commands("doctor", "nova-sched-manage doctor")
    cloud.run("nova-sched-manage service disable alder birch cedar")
    book.commands("doctor-ill", "nova-sched-manage doctor --only-findings")
    cloud.run("nova-sched-manage service enable alder birch cedar")
    book.commands("claims", "nova-sched claim list --host cedar")
    book.text("readyz", f"$ curl -s http://127.0.0.1:{cloud.port}/readyz\n{cloud.get('/readyz')[1]}")
    _picture(cloud)
    before = len(cloud.log)
    cloud.write(ram_allocation_ratio=1.5, workers=3)
    cloud.hang_up()
    until(lambda: cloud.log[before:].count("deciding with the new settings") >= 2, 20)
    book.text("reload", _lines(cloud.log[before:], "configuration: ", "needs restart"))
    before = len(cloud.log)
    cloud.write(ram_allocation_ratio="much")
    cloud.hang_up()
    until(lambda: "stays as it is" in cloud.log[before:], 20)
    book.text("reload-wrong", _lines(cloud.log[before:], "stays as it is"))
    book.text("audit", _lines(cloud.log, "audit: "))


def _boot(cloud: Cloud, words: str) -> str:
    out = cloud.run(f"nova-sched boot vm {words} --wait 20 -f value -c ID").out
    return out.strip()


def _lines(log: str, *words: str) -> str:
    """Lines of the parent (or the first process) with these words, each text once, without time and process."""
    told = dict.fromkeys(
        re.sub(r"^\S+ \S+ \d+ ", "", line) for line in log.splitlines() if any(word in line for word in words)
    )
    return "\n".join(told)


def _picture(cloud: Cloud) -> None:
    subprocess.run(
        [*CHROMIUM, f"--user-data-dir={cloud.folder}/browser", "--virtual-time-budget=4000", "--window-size=1400,760",
         f"--screenshot={FOLDER / 'page.png'}", f"http://127.0.0.1:{cloud.port}/"],
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip


def _metrics() -> str:
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 45 20 35", ""]
    lines += ["   * - Metric", "     - Labels", "     - Meaning"]
    for name, metric in CATALOGUE.items():
        lines += [
            f"   * - ``{full_name(name)}``",
            f"     - {', '.join(metric.labels) or '–'}",
            f"     - {metric.help}",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
