"""Dictionary-encoded text columns whose dictionaries forget what no row uses any more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]


class Dictionary:
    """Values of one column and how many rows use each. Codes of forgotten values are given to new ones.

    ``values[code]`` is None for NULL and for codes that no row uses.
    """

    def __init__(self) -> None:
        self.values: list[str | None] = []
        self._codes: dict[str | None, int] = {}
        self._uses: list[int] = []
        self._free: list[int] = []

    def acquire(self, values: Sequence[str | None]) -> Codes:
        """Codes of these values, each counted as used once more."""
        codes, uses = self._codes, self._uses
        found = np.empty(len(values), dtype=np.int32)
        for row, value in enumerate(values):
            code = codes.get(value)
            if code is None:
                code = self._add(value)
            uses[code] += 1
            found[row] = code
        return found

    def release(self, released: Codes) -> None:
        """Count these codes as used once less; forget values that nobody uses."""
        uses = self._uses
        for code in released.tolist():
            uses[code] -= 1
            if not uses[code]:
                del self._codes[self.values[code]]
                self.values[code] = None
                self._free.append(code)

    def _add(self, value: str | None) -> int:
        if self._free:
            code = self._free.pop()
            self.values[code] = value
        else:
            code = len(self.values)
            self.values.append(value)
            self._uses.append(0)
        self._codes[value] = code
        return code
