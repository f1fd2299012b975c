"""The demo's verdict, computed from SQL, from the agents' reports and from the notifications: nothing is assumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nova_sched.cmd.demo_scenario import RATIOS
from nova_sched.cmd.demo_story import Guest, Story


@dataclass(frozen=True, slots=True)
class Verdict:
    """``lost``: instances that are neither active nor in ERROR. ``complaints``: whatever is not as it should be."""

    requested: int
    active: int
    error: int
    lost: int
    oversubscribed: int
    complaints: tuple[str, ...]

    @property
    def good(self) -> bool:
        """The summary may be believed and says what was wanted."""
        return not self.complaints

    def __str__(self) -> str:
        return (
            f"summary: requested={self.requested} active={self.active} error={self.error} "
            f"lost={self.lost} oversubscribed={self.oversubscribed}"
        )


def audit(story: Story) -> Verdict:
    """Compare the three sources."""
    guests = list(story.guests.values())
    active = [guest for guest in guests if guest.state == "active"]
    error = [guest for guest in guests if guest.state == "error"]
    lost = len(guests) - len(active) - len(error)
    crowded = list(_oversubscribed(story))
    complaints = [text for guest in guests for text in _complaints(guest)]
    if lost:
        complaints.append(f"{lost} instances were lost")
    complaints += crowded
    if story.reported() != len(active):
        complaints.append(f"agents report {story.reported()} guests, SQL has {len(active)} active instances")
    if story.phases["start"] != story.phases["end"]:
        complaints.append(f"{story.phases['start']} .start and {story.phases['end']} .end notifications")
    rescheduled = [guest for guest in active if guest.attempt > 1]
    if not rescheduled or any(len(set(guest.scheduled)) < 2 for guest in rescheduled):
        complaints.append("no build was rescheduled to another host")
    return Verdict(len(guests), len(active), len(error), lost, len(crowded), tuple(complaints))


def _complaints(guest: Guest) -> Iterator[str]:
    if guest.state in ("active", "error") and guest.state != guest.ends:
        yield f"{guest.name} ended {guest.state} instead of {guest.ends}: {guest.fault}"
    if guest.state == "active" and (not guest.scheduled or guest.scheduled[-1] != guest.host):
        yield f"{guest.name} is on {guest.host}, notifications say {', '.join(guest.scheduled) or 'nothing'}"
    if guest.state == "active" and len(guest.scheduled) != guest.attempt:
        yield f"{guest.name} is at attempt {guest.attempt} after {len(guest.scheduled)} .scheduled notifications"
    if guest.state == "error" and (len(guest.error_events) != 1 or not guest.fault):
        yield f"{guest.name} is in ERROR with {len(guest.error_events)} notifications and the fault {guest.fault!r}"


def _oversubscribed(story: Story) -> Iterator[str]:
    """Hosts on which the agent's own numbers, or SQL's with claims, exceed what the ratios allow."""
    for host in story.hosts:
        totals = {"vcpus": host["vcpus"], "memory_mb": host["memory_mb"], "disk_gb": host["local_gb"]}
        reported = {
            "vcpus": host["vcpus_used"],
            "memory_mb": host["memory_mb_used"],
            "disk_gb": host["local_gb_used"],
        }
        counted = {
            "vcpus": (host["used_vcpus"] or 0) + host["claimed_vcpus"],
            "memory_mb": (host["used_memory_mb"] or 0) + host["claimed_memory_mb"],
            "disk_gb": ((host["used_disk_mb"] or 0) + host["claimed_disk_mb"]) / 1024,
        }
        for amount, ratio in RATIOS.items():
            most = max(reported[amount] or 0, counted[amount])
            if most > totals[amount] * ratio:
                yield f"{host['host']} has {most} {amount} in use of {totals[amount]} x {ratio}"
                break
