"""``doctor``: everything that operators were asked about on the telephone, in one go."""

from __future__ import annotations

import argparse
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from nova_sched.cmd.client.requests import context_of
from nova_sched.cmd.console import List
from nova_sched.cmd.exits import Mismatch
from nova_sched.conf import check
from nova_sched.db.checkup import check_store
from nova_sched.errors import SchedulerError
from nova_sched.model.symptom import State, Symptom, fine, odd, wrong
from nova_sched.rpc.checkup import check_bus
from nova_sched.settings import HealthSettings

_HEALTH_SECONDS = 5.0


class Doctor(List):
    """Look at configuration, broker, database, agents and service; one line each, with the remedy.

    Nothing is changed. Exits 1 when something is wrong; what is merely odd does not count.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """--quiet-ok and --timeout."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--only-findings", action="store_true", help="leave out what is fine")
        parser.add_argument(
            "--timeout",
            type=float,
            default=5.0,
            metavar="SECONDS",
            help="of the call to a scheduler (default: 5)",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """One row per look."""
        connections = self.app.connections
        settings = connections.settings
        found = [*self._configuration(), *check_bus(connections.transport, settings.bus)]
        found.append(self._service(parsed_args.timeout))
        found += _health(settings.health)
        found += check_store(connections.database(checked=False), settings)
        bad = sum(one.state is State.WRONG for one in found)
        if bad:
            self.defer_exit(Mismatch(f"{bad} of {len(found)} looks found something wrong"))
        shown = [one for one in found if one.state is not State.FINE or not parsed_args.only_findings]
        return ("Check", "State", "Found", "Remedy"), [
            (one.check, str(one.state), one.found, one.remedy) for one in shown
        ]

    def _configuration(self) -> Iterator[Symptom]:
        connections = self.app.connections
        remarks = check.findings(connections.conf, connections.settings)
        for remark in remarks:
            yield odd(f"option {remark.option}", remark.remark, "see nova-sched-manage config check")
        if not remarks:
            yield fine("configuration", "nothing is odd about it")

    def _service(self, timeout_seconds: float) -> Symptom:
        try:
            answer = self.app.connections.scheduler(timeout_seconds).ping(context_of(), "doctor")
        except SchedulerError as silent:
            return wrong(
                "scheduler", f"does not answer: {silent}", "start nova-sched-scheduler, look at its log"
            )
        return fine("scheduler", f"{answer.get('service', 'scheduler')} answers calls")


def _health(settings: HealthSettings) -> Iterator[Symptom]:
    if not settings.enabled:
        yield odd("health port", "is switched off", "set [health] enabled = true to have metrics and probes")
        return
    if settings.bind not in ("127.0.0.1", "::1", "localhost"):
        yield odd(
            "health port", f"listens on {settings.bind}", "bind it to loopback, or put a proxy before it"
        )
    if not settings.port:
        return
    url = f"http://{settings.bind}:{settings.port}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=_HEALTH_SECONDS) as answer:  # nosec B310
            yield fine("health port", f"{url} says {answer.read().decode().splitlines()[-1]}")
    except urllib.error.HTTPError as error:
        failing = [line[4:] for line in error.read().decode().splitlines() if line.startswith("[-]")]
        yield wrong("health port", f"not ready: {'; '.join(failing)}", "mend what it names")
    except (urllib.error.URLError, OSError) as error:
        yield odd("health port", f"{url} does not answer: {error}", "fine where no scheduler runs here")
