"""A compute agent on a hypervisor of one's own, here a dictionary."""

from nova_sched.agent import Agent, BuildError, Guest, Usage
from nova_sched.rpcapi import ReportAPI, SchedulerAPI


class DictionaryHypervisor:
    vcpus, memory_mb, local_gb = 8, 8192, 100

    def __init__(self, must_fail=lambda uuid: False):
        self.guests: dict[str, Guest] = {}
        self.must_fail = must_fail

    def usage(self) -> Usage:
        guests = list(self.guests.values())
        return Usage(
            vcpus=sum(guest.vcpus for guest in guests),
            memory_mb=sum(guest.memory_mb for guest in guests),
            disk_gb=sum(guest.disk_mb for guest in guests) // 1024,
        )

    def report(self):
        used = self.usage()
        totals = {"vcpus": self.vcpus, "memory_mb": self.memory_mb, "local_gb": self.local_gb}
        in_use = {"vcpus_used": used.vcpus, "memory_mb_used": used.memory_mb, "local_gb_used": used.disk_gb}
        free = {"free_ram_mb": self.memory_mb - used.memory_mb, "free_disk_gb": self.local_gb - used.disk_gb}
        return {**totals, **in_use, **free, "hypervisor_type": "dict"}, frozenset(self.guests)

    def reserve(self, guest: Guest) -> None:
        self.guests[guest.uuid] = guest

    def build(self, guest: Guest) -> None:
        if self.must_fail(guest.uuid):  # start the guest here
            del self.guests[guest.uuid]
            raise BuildError("no such image")

    def destroy(self, uuid: str) -> None:
        self.guests.pop(uuid, None)  # end the guest here


def make_agent(transport, host, node, hypervisor, **options) -> Agent:
    return Agent(
        transport, host, hypervisor, SchedulerAPI(transport), ReportAPI(transport), node=node, **options
    )
