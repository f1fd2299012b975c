"""The option ``[metrics] weight_setting``: ``name=ratio, ...``."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from math import isfinite

LOG = logging.getLogger(__name__)


def parse_ratios(entries: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """(metric, ratio) pairs, trimmed; entries that are none are dropped with a warning, as in Juno.

    A ratio of 0 is one: it weighs nothing, but the metric is one that hosts are required to have.
    """
    found: list[tuple[str, float]] = []
    dropped: list[str] = []
    for entry in entries:
        name, equals, text = (part.strip() for part in entry.partition("="))
        try:
            ratio = float(text)
        except ValueError:
            dropped.append(entry)
            continue
        if name and equals and isfinite(ratio):
            found.append((name, ratio))
        else:
            dropped.append(entry)
    if dropped:
        LOG.warning("metrics.weight_setting: dropped what is not name=number: %s", ", ".join(dropped))
    return tuple(found)
