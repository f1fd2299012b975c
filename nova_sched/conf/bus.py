"""Names on the wire and what is said to whom. The broker's address is oslo.messaging's ``transport_url``."""

from __future__ import annotations

import socket

from oslo_utils import netutils

from nova_sched.conf.section import Item, Section
from nova_sched.conf.types import Names, Text
from nova_sched.settings import BusSettings

SECTION = Section(
    BusSettings,
    "DEFAULT",
    {
        "control_exchange": Item(
            Text(required=True),
            """Exchange of all topics. Must be what the API services and compute hosts use; "nova" is Nova's.""",
            library=True,
        ),
        "scheduler_topic": Item(Text(required=True), "Topic on which requests arrive. Needs restart."),
        "compute_topic": Item(
            Text(required=True),
            "Topic to which builds are sent, as compute.<host> at the default. Needs restart.",
        ),
        "report_topic": Item(
            Text(required=True),
            "Topic on which compute agents report. Needs restart.",
            name="scheduler_report_topic",
        ),
        "dead_letter_queue": Item(
            Text(required=True),
            "Queue for messages that no worker could process. Give it the same access rights as the scheduler topic.",
            group="delivery",
        ),
        "host": Item(
            Text(required=True),
            """Name of this machine in service rows, queue names and notifications. Any text that is unique; the
            compute hosts' names must equal those in their reports. Default: what the system calls itself.""",
            default=socket.gethostname(),
            sample_default="<host name>",
        ),
        "notify_on_state_change": Item(
            Text(["", "vm_state", "vm_and_task_state"]),
            """Send compute.instance.update when a scheduling failure changes an instance: for vm_state changes, for
            task_state changes as well, or (empty) never.""",
            also=("notifications.notify_on_state_change",),
        ),
        "notification_drivers": Item(
            Names(),
            """How notifications leave: messaging (bare JSON, what Juno's consumers read), messagingv2 (in an envelope),
            log, noop. May be given several times.""",
            group="oslo_messaging_notifications",
            name="driver",
            multi=True,
            library=True,
        ),
        "notification_topics": Item(
            Names(),
            "Topics of notifications; each gets every event, on queues named <topic>.<priority>.",
            group="oslo_messaging_notifications",
            name="topics",
            library=True,
        ),
        "compute_version_cap": Item(
            Text(),
            """Highest compute RPC version to send: a number, a release (icehouse, juno, kilo) or auto. Set it while
            older compute hosts are in service. Not set: this scheduler's own.""",
            group="upgrade_levels",
            name="compute",
        ),
        "scheduler_version_cap": Item(
            Text(),
            "Highest scheduler RPC version that our clients send: a number, a release (icehouse, juno) or auto.",
            group="upgrade_levels",
            name="scheduler",
        ),
    },
)

MACHINE = Section(
    None,
    "DEFAULT",
    {
        "my_ip": Item(
            Text(required=True),
            """Address of this machine. Read by nothing but other values of this file that say $my_ip, as nova.conf
            files do.""",
            default=netutils.get_my_ipv4(),
            sample_default="<address of this machine>",
        ),
        "state_path": Item(
            Text(required=True),
            """Folder for state. Read by nothing but other values of this file that say $state_path.""",
            default="/var/lib/nova_sched",
        ),
    },
)
