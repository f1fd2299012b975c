"""Nova's versioned-object primitives and database rows, read as the plain dictionaries they carry.

A primitive is ``{"nova_object.name": …, "nova_object.version": …, "nova_object.data": {…}}``; a row list is
``[{"key": …, "value": …}, …]``, the form in which ``metadata`` and ``system_metadata`` leave Nova's database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DATA = "nova_object.data"
NAME = "nova_object.name"

#: Fields of Nova's ImageMetaProps that replaced the property names of Juno.
_IMAGE_PROPERTY_NAMES = {
    "hw_architecture": "architecture",
    "img_hv_type": "hypervisor_type",
    "hw_vm_mode": "vm_mode",
    "img_hv_requested_version": "hypervisor_version_requires",
}


def unwrap(value: Any) -> Any:
    """The data of a versioned-object primitive; any other value as it is. One level, nothing is copied."""
    if isinstance(value, dict) and DATA in value:
        return value[DATA]
    return value


def fields(value: Any) -> Mapping[str, Any] | None:
    """A dictionary given plainly or as a primitive; None for anything else."""
    value = unwrap(value)
    return value if isinstance(value, dict) else None


def mapping(value: Any) -> Mapping[str, Any] | None:
    """A dictionary given plainly, as a primitive or as key/value rows; None for anything else."""
    value = unwrap(value)
    if isinstance(value, dict):
        return value
    if isinstance(value, list | tuple) and all(
        isinstance(row, dict) and isinstance(row.get("key"), str) for row in value
    ):
        return {row["key"]: row.get("value") for row in value}
    return None


def image_properties(value: Any) -> Mapping[str, Any] | None:
    """Image properties by Juno's names, whatever release wrote them; None if they are no dictionary."""
    properties = mapping(value)
    if properties is None or not (isinstance(value, dict) and value.get(NAME) == "ImageMetaProps"):
        return properties
    older = {old: properties[new] for new, old in _IMAGE_PROPERTY_NAMES.items() if new in properties}
    return {**properties, **older}
