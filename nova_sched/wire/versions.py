"""Versions of Nova's compute RPC API that our casts use, under the caps of ``[upgrade_levels]``.

===========  ===========  ==================================================
method       version      arguments
===========  ===========  ==================================================
run_instance 3.27 or 3.0  the same; 3.27 says that new instance objects are understood
prep_resize  3.0          image, instance, instance_type, reservations, request_spec, filter_properties, node
===========  ===========  ==================================================
"""

from __future__ import annotations

from nova_sched.errors import ConfigurationError

#: Release names of ``[upgrade_levels] compute`` that this service meets, and "auto" for no cap.
COMPUTE_ALIASES = {"icehouse": "3.23", "icehouse-compat": "3.23", "juno": "3.35"}

_VERSIONS = {"run_instance": ("3.27", "3.0"), "prep_resize": ("3.0",), "terminate_instance": ("3.0",)}


def compute_version(method: str, cap: str | None) -> str:
    """Highest version of ``method`` that computes under ``cap`` accept: a release name, a number, ``auto`` or None.

    Raises ConfigurationError for a cap that is neither, or that is below everything this service can send.
    """
    if cap is None or cap == "auto":
        return _VERSIONS[method][0]
    limit = _number(COMPUTE_ALIASES.get(cap, cap))
    for version in _VERSIONS[method] if limit is not None else ():
        wanted = _number(version)
        if wanted is not None and limit is not None and wanted[0] == limit[0] and wanted[1] <= limit[1]:
            return version
    known = ", ".join(sorted(COMPUTE_ALIASES))
    raise ConfigurationError(
        "upgrade_levels.compute", cap, f"auto, {known}, or a version 3.0 and above (below 4.0)"
    )


def _number(version: str) -> tuple[int, int] | None:
    major, _, minor = version.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
