"""Heartbeats: what changed of a host's numbers, in an order that survives restarts and clocks set back."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nova_sched.agent.hypervisor import Hypervisor
from nova_sched.agent.ports import ReportClient
from nova_sched.errors import BusUnavailable

LOG = logging.getLogger(__name__)

FULL_EVERY = 10
"""Every report of this number is complete, so that a lost one does no lasting harm."""


def next_epoch(state_path: Path | None, now: float) -> int:
    """Number of this start, larger than that of every start before: milliseconds of ``now``, or one more than stored.

    :param state_path: file that remembers it over restarts; without one a clock set back between two starts would let
        the scheduler take the new reports for old ones.
    """
    epoch = int(now * 1000)
    if state_path is None:
        return epoch
    try:
        epoch = max(epoch, int(json.loads(state_path.read_text(encoding="utf-8"))["epoch"]) + 1)
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError):
        LOG.warning("%s holds no epoch, starting from the clock", state_path)
    state_path.parent.mkdir(parents=True, exist_ok=True)
    new = state_path.with_name(state_path.name + ".new")
    with open(new, "w", encoding="utf-8") as file:
        json.dump({"epoch": epoch}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(state_path)
    return epoch


class Reporter:
    """Reports one node of a host every ``interval_seconds``, and soon after something changed.

    Only changed values are sent, but all of them in the first report, in every tenth and after one that was not sent.
    """

    def __init__(
        self,
        reports: ReportClient,
        hypervisor: Hypervisor,
        *,
        host: str,
        node: str,
        interval_seconds: float,
        epoch: int,
        version: str = "1.0",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reports = reports
        self._hypervisor = hypervisor
        self._host = host
        self._node = node
        self._interval_seconds = interval_seconds
        self._epoch = epoch
        self._version = version
        self._clock = clock
        self._seq = 0
        self._sent: dict[str, Any] | None = None
        self._sent_instances: frozenset[str] | None = None
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._complained = False
        self._thread = threading.Thread(target=self._run, name=f"reporter-{host}", daemon=True)

    def start(self) -> None:
        """Report now and from now on."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """Report no more."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)

    def soon(self) -> None:
        """Numbers changed: report before the interval is over (at most ten times in it)."""
        self._wake.set()

    def report(self) -> None:
        """Send one report. Raises BusUnavailable; the next one is then complete."""
        values, instances = self._hypervisor.report()
        full = self._sent is None or self._seq % FULL_EVERY == 0
        changed = values if full else self._changed(values)
        node = {
            "hypervisor_hostname": self._node,
            "values": dict(changed),
            "instances": sorted(instances) if full or instances != self._sent_instances else None,
            "full": full,
        }
        service = {
            "host": self._host,
            "epoch": self._epoch,
            "seq": self._seq,
            "interval_seconds": self._interval_seconds,
            "version": self._version,
        }
        self._seq += 1
        self._sent = None
        self._reports.report_state({}, service=service, nodes=[node])
        self._sent, self._sent_instances = dict(values), instances

    def _changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        sent = self._sent or {}
        return {key: value for key, value in values.items() if key not in sent or sent[key] != value}

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = self._clock()
            self._wake.clear()
            try:
                self.report()
                if self._complained:
                    LOG.info("reports of %s can be sent again", self._host)
                self._complained = False
            except BusUnavailable as exc:
                if not self._complained:
                    LOG.warning("reports of %s cannot be sent, trying on: %s", self._host, exc)
                self._complained = True
            except Exception:  # one bad report must not silence the host for ever
                LOG.exception("a report of %s failed", self._host)
            gap = self._interval_seconds / FULL_EVERY
            if not self._stopping.wait(gap):
                self._wake.wait(max(0.0, self._interval_seconds - (self._clock() - began)))
