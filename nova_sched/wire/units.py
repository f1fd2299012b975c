"""Units of the wire against units inside: disk is GB in Nova's messages and MB everywhere else."""

from __future__ import annotations

MB_PER_GB = 1024


def gb_to_mb(size_gb: int) -> int:
    """Disk size in MB of one given in GB (binary, as Nova counts); negative sizes of full hosts keep their sign."""
    return size_gb * MB_PER_GB
