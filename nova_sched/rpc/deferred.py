"""The answer of an endpoint method that is known only when the batch it joined has ended."""

from __future__ import annotations

from typing import Any

from nova_sched.errors import SchedulerError


class UnansweredError(SchedulerError):
    """A batch ended without an answer for a request it had accepted: a fault of the endpoint."""


class Deferred:
    """Returned by an endpoint method, resolved during ``on_batch_end``. One thread makes and resolves it."""

    __slots__ = ("_error", "_result", "done")

    def __init__(self) -> None:
        self.done = False
        self._result: Any = None
        self._error: BaseException | None = None

    def set_result(self, result: Any) -> None:
        """The request is done; ``result`` goes to a caller, a cast ignores it."""
        self._result, self._error, self.done = result, None, True

    def set_exception(self, error: BaseException) -> None:
        """The request failed; a caller gets it typed, a cast is dead-lettered unless the failure is a normal answer."""
        self._error, self.done = error, True

    def result(self) -> Any:
        """The result, or raises what was set; UnansweredError when nothing was."""
        if not self.done:
            raise UnansweredError("the batch ended without an answer for this request")
        if self._error is not None:
            raise self._error
        return self._result
