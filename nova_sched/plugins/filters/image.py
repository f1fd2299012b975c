"""ImagePropertiesFilter."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nova_sched.errors import RequestRefused
from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters import _columns
from nova_sched.plugins.filters._texts import amount, clipped, some

_ARCHITECTURES = """
    aarch64 alpha armv6 armv7b armv7l cris i686 ia64 lm32 m68k microblaze microblazeel mips mips64 mips64el mipsel
    openrisc parisc parisc64 ppc ppc64 ppc64le ppcemb ppcle s390 s390x sh4 sh4eb sparc sparc64 unicore32 x86_64 xtensa
    xtensaeb
"""
_HYPERVISORS = """
    baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp qemu test uml vbox virtuozzo vmware xen
    zvm
"""
_VM_MODES = frozenset({"exe", "hvm", "uml", "xen"})

#: property of the image → (its aliases, the names there are)
_ASKED: Mapping[str, tuple[Mapping[str, str], frozenset[str]]] = {
    "architecture": (
        {
            "i386": "i686",
            "i486": "i686",
            "i586": "i686",
            "x86_32": "i686",
            "x86_32p": "i686",
            "amd64": "x86_64",
        },
        frozenset(_ARCHITECTURES.split()),
    ),
    "hypervisor_type": ({"xapi": "xen", "powervm": "phyp"}, frozenset(_HYPERVISORS.split())),
    "vm_mode": ({"pv": "xen", "hv": "hvm", "baremetal": "hvm"}, _VM_MODES),
}
_REQUIRES = "hypervisor_version_requires"

_COMPARISON = re.compile(r"\s*(<=|>=|<|>|!=|==)\s*([^\s,]+)\s*\Z")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:([ab])(\d+))?\Z", re.ASCII)
_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "!=": operator.ne,
    "==": operator.eq,
}
#: Release numbers and, for ``4.2b1``, the letter and number that come before the release itself.
_Version = tuple[tuple[int, ...], tuple[str, int]]
_RELEASE = ("z", 0)
_Predicates = list[tuple[Callable[[Any, Any], bool], _Version]]


class ImagePropertiesFilter(HostFilter):
    """The host advertises the image's ``architecture``, ``hypervisor_type`` and ``vm_mode``, all in one triple.

    Then ``hypervisor_version_requires`` (``>=4.1,<4.3``) must hold for its hypervisor version, if that is known. An
    image without any of the three passes everywhere. Empty texts are not set; names are compared in lower case, with
    Nova's aliases (``amd64``, ``xapi``, ``pv``).
    """

    name = "ImagePropertiesFilter"
    reason = "does not support the image's properties"
    run_once_per_request = True

    def check(self, request: SchedulingRequest) -> None:
        if self._wanted(request) and self._predicates(request) is None:
            asked = clipped(request.image.properties.get(_REQUIRES))
            raise RequestRefused(self.name, f"{_REQUIRES} {asked!r} of the image is no version range")

    def concerns(self, view: HostView, request: SchedulingRequest) -> bool:
        try:
            supported = self._supported(view, self._wanted(request))
        except RequestRefused:
            return True
        version = view.number("hypervisor_version")
        return bool(np.any(supported & ~np.isnan(version) & (version != 0)))

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        wanted = self._wanted(request)
        return (wanted, str(request.image.properties.get(_REQUIRES))) if wanted else ()

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        wanted = self._wanted(request)
        if not wanted:
            return np.ones(len(view), dtype=np.bool_)
        supported = self._supported(view, wanted)
        predicates = self._predicates(request)
        return supported if predicates == [] else supported & self._version_holds(view, predicates)

    @staticmethod
    def _supported(view: HostView, wanted: tuple[str, ...]) -> Mask:
        return view.coded("supported_instances").spread(
            lambda text: any(set(wanted) <= set(triple) for triple in _columns.supported_instances(text))
        )

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        triples = _columns.supported_instances(view.coded("supported_instances")[row])
        return (
            f"image asks for {self._asked(request)}, the host supports "
            f"{some('/'.join(triple) for triple in triples)} "
            f"with hypervisor version {_dotted(view.number('hypervisor_version')[row])}"
        )

    def summary(
        self, view: HostView, rows: NDArray[np.intp], request: SchedulingRequest, facts: Facts
    ) -> str:
        return f"{self.reason}: {self._asked(request)}"

    def _asked(self, request: SchedulingRequest) -> str:
        version = request.image.properties.get(_REQUIRES)
        return " ".join([*self._wanted(request), *([clipped(version)] if version else [])])

    def _wanted(self, request: SchedulingRequest) -> tuple[str, ...]:
        return tuple(
            self._canonical(key, value) for key in _ASKED if (value := request.image.properties.get(key))
        )

    def _canonical(self, key: str, value: Any) -> str:
        aliases, names = _ASKED[key]
        name = str(value).lower()
        name = aliases.get(name, name)
        if name not in names:
            raise RequestRefused(self.name, f"unknown {key} {clipped(value)!r} of the image")
        return name

    def _predicates(self, request: SchedulingRequest) -> _Predicates | None:
        """What the version must satisfy; None when the text is no version range."""
        asked = request.image.properties.get(_REQUIRES)
        if not asked:
            return []
        found = []
        for part in str(asked).split(","):
            comparison = _COMPARISON.match(part)
            version = comparison and _parse_version(comparison[2])
            if not comparison or not version:
                return None
            found.append((_SIGNS[comparison[1]], version))
        return found

    def _version_holds(self, view: HostView, predicates: _Predicates | None) -> Mask:
        """True where the version is unknown or satisfies all of them; no known version satisfies what is no range."""
        versions, codes = np.unique(view.number("hypervisor_version"), return_inverse=True)
        holds = [
            not value
            or np.isnan(value)
            or (predicates is not None and all(sign(_of_number(value), asked) for sign, asked in predicates))
            for value in versions
        ]
        return np.array(holds, dtype=np.bool_)[codes]


def _parse_version(text: str) -> _Version | None:
    """``4.2``, ``4.2.1``, ``4.2b1``; None for anything else."""
    found = _VERSION.match(text)
    if found is None:
        return None
    numbers = (int(found[1]), int(found[2]), int(found[3] or 0))
    return (_trimmed(numbers), (found[4], int(found[5])) if found[4] else _RELEASE)


def _of_number(value: float) -> _Version:
    """Nova's integer versions: three decimal digits per part, 4002001 = 4.2.1."""
    parts: list[int] = []
    rest = int(value)
    while rest > 0:
        rest, part = divmod(rest, 1000)
        parts.insert(0, part)
    return (_trimmed(tuple(parts)), _RELEASE)


def _trimmed(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Without zeros at the end: 4.2 equals 4.2.0."""
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers


def _dotted(value: float) -> str:
    return amount(value) if np.isnan(value) else ".".join(map(str, _of_number(value)[0])) or "0"
