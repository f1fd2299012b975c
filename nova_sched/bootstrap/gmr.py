"""Guru Meditation Reports on SIGUSR2: threads, packages and configuration of a running process, secrets masked."""

from __future__ import annotations

import logging
import signal
from importlib.metadata import version
from typing import Any

from oslo_reports import guru_meditation_report

LOG = logging.getLogger(__name__)


class _Version:
    """What the report's package section asks for."""

    def vendor_string(self) -> str:
        return "OpenStack"

    def product_string(self) -> str:
        return "nova_sched"

    def version_string_with_package(self) -> str:
        return version("nova_sched")


def setup(conf: Any) -> None:
    """Write a report when this process gets SIGUSR2, to standard error or ``[oslo_reports] log_dir``."""
    guru_meditation_report.TextGuruMeditation.setup_autorun(_Version(), conf=conf, signum=signal.SIGUSR2)
