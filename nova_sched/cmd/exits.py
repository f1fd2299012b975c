"""Exit codes of all programs, and the one line a user gets for an error.

0 yes · 1 no (no host, mismatch, goal missed, not found) · 2 usage or configuration · 3 broker, SQL or service not
reachable in time · 4 our fault.
"""

from __future__ import annotations

from oslo_utils import strutils

from nova_sched import errors
from nova_sched.lab.case import BrokenCase
from nova_sched.lab.trace import BrokenTrace

YES, NO, USAGE, UNREACHABLE, OUR_FAULT = 0, 1, 2, 3, 4


class UsageError(Exception):
    """Arguments that contradict each other or name what cannot be; ``argparse`` has let them through."""


class Mismatch(Exception):
    """What was compared is not the same."""


_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (errors.ConfigurationError, USAGE),
    (errors.MalformedMessage, USAGE),
    (UsageError, USAGE),
    (errors.NoValidHost, NO),
    (Mismatch, NO),
    (BrokenCase, USAGE),
    (BrokenTrace, USAGE),
    (errors.InstanceNotFound, NO),
    (errors.HostNotFound, NO),
    (errors.ServerGroupNotFound, NO),
    (errors.AggregateNotFound, NO),
    (errors.DecisionNotFound, NO),
    (errors.QueueMismatch, USAGE),
    (errors.StoreUnavailable, UNREACHABLE),
    (errors.BusUnavailable, UNREACHABLE),
    (TimeoutError, UNREACHABLE),
    (FileNotFoundError, USAGE),
    (PermissionError, USAGE),
    (IsADirectoryError, USAGE),
)


def exit_code(error: BaseException) -> int:
    """Exit code for what a command raised."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), OUR_FAULT)


def one_line(error: BaseException) -> str:
    """What to tell the user: a single line, secrets masked; our own faults name their class."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.filename}: {error.strerror}"
    elif exit_code(error) == OUR_FAULT:
        text = f"{type(error).__name__}: {text} (a fault of this program; --debug shows where)"
    return strutils.mask_password(text)
