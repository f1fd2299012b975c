"""Command lines run in this process, on a SQLite file of their own."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest
from oslo_config import cfg

from nova_sched.cmd import client, manage


@dataclass(frozen=True)
class Ran:
    """What a command line did."""

    code: int
    out: str
    err: str


class Shell:
    """Runs ``nova-sched-manage`` and ``nova-sched`` with one configuration file."""

    def __init__(self, folder) -> None:
        self.config = folder / "nova.conf"
        self.database = f"sqlite:///{folder}/sched.sqlite"
        self.write("")

    def write(self, text: str) -> None:
        """Replace the configuration, keeping the database."""
        self.config.write_text(f"[database]\nconnection = {self.database}\n{text}")

    def manage(self, *words: str) -> Ran:
        """Run nova-sched-manage."""
        return self._run(manage.main, words)

    def client(self, *words: str) -> Ran:
        """Run nova-sched."""
        return self._run(client.main, words)

    def _run(self, main, words) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(["--config-file", str(self.config), *words], cfg.ConfigOpts())
        return Ran(code, out.getvalue(), err.getvalue())


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)
