"""The frame that ``top`` draws: readable without colours, bounded, honest about what it does not know."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nova_sched.cmd.client.top_view import NAMED_MAX, frame, free_share
from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.settings import DatabaseSettings


def host(
    name: str, free_mb: int | None = 512, state: str = "up", total_mb: int | None = 1024
) -> dict[str, Any]:
    return {
        "host": name, "node": name, "state": state, "ram_free_mb": free_mb, "ram_total_mb": total_mb,
        "vcpus_free": 1, "vcpus_total": 4, "instances": 1,
    }  # fmt: skip


def drawn(hosts: list[dict[str, Any]], requests: Any = (), refusals: Any = (), **how: Any) -> str:
    state = {
        "totals": {"hosts up": len(hosts)},
        "hosts": hosts,
        "requests": list(requests),
        "refusals": list(refusals),
    }
    console = Console(file=io.StringIO(), width=100)
    console.print(frame(state, **how))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_few_hosts_have_names_bars_and_numbers():
    text = drawn([host("alder"), host("birch", 0, "down"), host("cedar", None)])
    assert re.search(r"alder +█████····· +512 of 1,024 MB +up +1 guest", text)
    assert "down" in text
    assert "unknown" in text
    assert "█··" in drawn([host("alder")], by="vcpu")


def test_many_hosts_are_one_cell_each_with_a_digit_or_a_sign():
    hosts = [host(f"h{number}", 1024 * number // 100) for number in range(100)]
    text = drawn([*hosts, host("d", state="down"), host("e", state="disabled"), host("u", None)])
    assert len(hosts) > NAMED_MAX
    assert text.count("9 ") >= 9
    assert "x - ?" in text
    assert "its digit the tenths that are free" in text


@pytest.mark.parametrize(
    ("free", "total", "share"), [(-5, 10, 0.0), (20, 10, 1.0), (None, 10, None), (5, 0, None)]
)
def test_shares_are_bounded_and_the_unknown_stays_unknown(free: int | None, total: int, share: float | None):
    assert free_share(host("a", free, total_mb=total), "ram") == share


def test_instances_show_state_and_latency_and_no_more_rows_than_asked():
    one = {"uuid": "u-1", "vm_state": "building", "task_state": "scheduling", "host": None, "attempt": 2,
           "age_seconds": 3.4, "latency_ms": 1.25}  # fmt: skip
    text = drawn([host("a")], [one, {**one, "uuid": "u-2", "task_state": None, "latency_ms": None}], rows=2)
    assert "building (scheduling)" in text
    assert "1.2 ms" in text
    assert "u-2" in text
    assert "u-2" not in drawn([host("a")], [one, {**one, "uuid": "u-2"}], rows=1)


def test_refusals_with_brackets_are_text_not_markup():
    assert "[red]n hosts[/red]" in drawn([host("a")], refusals=[{"reason": "[red]n hosts[/red]", "count": 7}])


def test_an_empty_cloud_and_a_service_that_does_not_answer_are_said():
    assert "no hosts have reported yet" in drawn([])
    assert "no answer: SQL is away" in drawn([host("a")], stale="SQL is away")


def test_on_a_terminal_it_draws_until_it_is_interrupted(tmp_path: Path):
    config = tmp_path / "nova-sched.conf"
    connection = f"sqlite:///{tmp_path}/top.sqlite"
    config.write_text(f"[DEFAULT]\ntransport_url = fake://\n[database]\nconnection = {connection}\n")
    database = Database(DatabaseSettings(connection=connection))
    schema.sync(database)
    database.close()
    code = "import sys; from nova_sched.cmd.client import main; sys.exit(main())"
    words = ["--config-file", str(config), "top", "--interval", "0.2"]
    pid, terminal = pty.fork()
    if not pid:
        os.execv(sys.executable, [sys.executable, "-c", code, *words])
    seen = b""
    while seen.count(b"no hosts have reported yet") < 2:
        seen += os.read(terminal, 65536)
    os.kill(pid, signal.SIGINT)
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        with contextlib.suppress(OSError):
            seen += os.read(terminal, 65536)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(ended[1]) == 0
    assert b"Traceback" not in seen
