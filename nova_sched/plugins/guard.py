"""Calls into plugins: whoever breaks is named, and whoever hangs can be named by a watchdog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nova_sched.errors import PluginError, RequestRefused

Answer = TypeVar("Answer")


class PluginGuard:
    """Runs plugin code. ``current``: name of the plugin that runs now, else None; ``calls`` counts upwards.

    A watchdog thread that reads the same name and count for longer than the time limit has found a plugin that hangs.
    ``stopwatch``: a clock (seconds) of whoever wants to know what plugins cost; then ``spent`` adds up, by plugin.
    """

    def __init__(self) -> None:
        self.current: str | None = None
        self.calls = 0
        self.stopwatch: Callable[[], float] | None = None
        self.spent: dict[str, float] = {}

    def call(self, name: str, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """``function(*arguments)``. Raises PluginError naming the plugin; RequestRefused passes through."""
        self.calls += 1
        self.current = name
        stopwatch = self.stopwatch
        began = stopwatch() if stopwatch is not None else 0.0
        try:
            return function(*arguments)
        except RequestRefused:
            raise
        except Exception as broken:
            raise PluginError(name, broken) from broken
        finally:
            self.current = None
            if stopwatch is not None:
                self.spent[name] = self.spent.get(name, 0.0) + stopwatch() - began


def checked_mask(name: str, mask: Any, rows: int) -> NDArray[np.bool_]:
    """``mask`` if it is a boolean array of that many rows. Raises PluginError."""
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (rows,):
        raise PluginError(name, f"its mask is not {rows} booleans")
    return mask


def checked_column(name: str, values: Any, rows: int) -> NDArray[np.float64]:
    """``values`` as float64 if they are numbers, one per row. Raises PluginError."""
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise PluginError(name, "its weights are not numbers") from None
    if column.shape != (rows,):
        raise PluginError(name, f"its weights are not {rows} numbers")
    return column
