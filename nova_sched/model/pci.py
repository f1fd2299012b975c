"""PCI device requests and pools, as Juno's ``pci_requests`` and ``pci_stats`` describe them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PciRequest:
    """``count`` devices, each matching any one of ``spec`` (each a mapping of equal text values)."""

    count: int
    spec: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class PciPool:
    """``count`` free devices that share ``tags`` (vendor_id, product_id, extra_info, ...)."""

    count: int
    tags: Mapping[str, object]
