"""``make demo``: the main job, start to end, with a verdict that is computed and an exit status that means it."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nova_sched.bootstrap.connections import Connections
from nova_sched.cmd import exits
from nova_sched.cmd.demo_audit import Verdict, audit
from nova_sched.cmd.demo_scenario import HOSTS, DemoRequest, requests
from nova_sched.cmd.demo_story import Story
from nova_sched.cmd.demo_view import View, open_view
from nova_sched.cmd.demo_world import EMBEDDED, RABBITMQ, open_world
from nova_sched.errors import SchedulerError
from nova_sched.rpc.tap import open_tap

HOSTS_SECONDS = 60.0
OUTCOMES_SECONDS = 90.0
SETTLE_SECONDS = 15.0
_LOOK_SECONDS = 0.1


def main(argv: Sequence[str] | None = None) -> int:
    """Play; 0 only if every instance ended as it should, on hosts that have the room."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument(
        "--bus",
        choices=(EMBEDDED, RABBITMQ),
        default=EMBEDDED,
        help="all in one process (default), or separate processes over a private RabbitMQ",
    )
    parser.add_argument(
        "--keep", metavar="FOLDER", help="leave database, configuration and logs in this folder"
    )
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="nova-sched-demo-") as temporary:
        folder = Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob("nova_sched.sqlite*"):
            stale.unlink()
        try:
            verdict = play(options.bus, folder)
        except (SchedulerError, RuntimeError, TimeoutError) as error:
            print(f"demo: {exits.one_line(error)}", file=sys.stderr)
            return exits.exit_code(error)
    for complaint in verdict.complaints:
        print(f"demo: {complaint}", file=sys.stderr)
    print(verdict)
    return exits.YES if verdict.good else exits.NO


def play(bus: str, folder: Path) -> Verdict:
    """One whole performance in ``folder``."""
    played = requests()
    with open_view(sys.stdout) as view:
        where = "in this process" if bus == EMBEDDED else "over a private RabbitMQ"
        view.show([f"starting a scheduler and {len(HOSTS)} agents {where}"], None)
        with open_world(bus, folder) as connections:
            tap = open_tap(connections.notifications, connections.settings.bus.notification_topics)
            try:
                story = Story(connections, tap, played)
                _until(view, story, lambda: len(story.hosts) == len(HOSTS), HOSTS_SECONDS, "hosts to report")
                view.show([f"{len(story.hosts)} hosts have reported"], story)
                _ask(connections, view, story, played)
                _until(view, story, lambda: story.all_ended, OUTCOMES_SECONDS, None)
                _until(view, story, lambda: audit(story).good, SETTLE_SECONDS, None)
                return audit(story)
            finally:
                tap.close()


def _ask(connections: Connections, view: View, story: Story, played: Sequence[DemoRequest]) -> None:
    """Send all requests, looking at what happens meanwhile."""
    api = connections.scheduler()
    for one in played:
        request = one.request
        api.run_instance(
            request.context,
            request.request_spec,
            None,
            [],
            None,
            True,
            request.filter_properties,
            legacy_bdm_in_spec=False,
        )
        asked = one.names[0] if len(one.names) == 1 else f"{len(one.names)} instances at once"
        view.show([f"{asked} asked for", *story.look(_LOOK_SECONDS)], story)


def _until(
    view: View, story: Story, done: Callable[[], bool], limit_seconds: float, what: str | None
) -> None:
    """Look until ``done()``; raises TimeoutError where ``what`` is given and does not come."""
    until = time.monotonic() + limit_seconds
    while not done():
        if time.monotonic() > until:
            if what is not None:
                raise TimeoutError(f"waited {limit_seconds:.0f} s for {what}")
            return
        view.show(story.look(_LOOK_SECONDS), story)


if __name__ == "__main__":
    sys.exit(main())
