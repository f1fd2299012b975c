"""``import nova.scheduler.filters`` inside plugins, where Nova is not installed (opt-in by ``[plugins] nova_imports``).

A finder at the end of ``sys.meta_path`` makes the modules of :data:`MODULES`, and nothing else of Nova: a plugin that
needs more than base classes and helpers fails to import with the name of what is missing. Where Nova (or the old
``oslo`` namespace) is installed, the real modules win.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_BASE = "nova_sched.plugins.nova.base:"
_I18N = dict.fromkeys(("_", "_LE", "_LI", "_LW", "_LC"), f"{_BASE}translated")
_UTILS = (
    "aggregate_metadata_get_by_host",
    "aggregate_values_from_key",
    "instance_uuids_overlap",
    "other_types_on_host",
    "validate_num_values",
)

#: Module → its names, each ``module:attribute`` (``module:`` = the module itself).
MODULES: Mapping[str, Mapping[str, str]] = {
    "nova": {},
    "nova.conf": {"CONF": "oslo_config.cfg:CONF"},
    "nova.filters": {"BaseFilter": f"{_BASE}BaseHostFilter"},
    "nova.i18n": _I18N,
    "nova.openstack": {},
    "nova.openstack.common": {"log": "oslo_log.log:"},
    "nova.openstack.common.gettextutils": _I18N,
    "nova.openstack.common.log": {
        name: f"oslo_log.log:{name}" for name in ("getLogger", "DEBUG", "INFO", "WARN", "ERROR")
    },
    "nova.scheduler": {},
    "nova.scheduler.filters": {"BaseHostFilter": f"{_BASE}BaseHostFilter"},
    "nova.scheduler.filters.extra_specs_ops": {"match": f"{_BASE}match"},
    "nova.scheduler.filters.utils": {name: f"{_BASE}{name}" for name in _UTILS},
    "nova.scheduler.host_manager": {"HostState": "nova_sched.plugins.nova.host_state:HostState"},
    "nova.scheduler.utils": {"get_weight_multiplier": f"{_BASE}get_weight_multiplier"},
    "nova.scheduler.weights": {
        "BaseHostWeigher": f"{_BASE}BaseHostWeigher",
        "WeighedHost": f"{_BASE}WeighedHost",
    },
    "nova.weights": {"BaseWeigher": f"{_BASE}BaseHostWeigher", "WeighedObject": f"{_BASE}WeighedHost"},
    "oslo": {},
    "oslo.config": {"cfg": "oslo_config.cfg:"},
    "oslo.utils": {name: f"oslo_utils.{name}:" for name in ("strutils", "timeutils", "importutils")},
}


class _Finder(MetaPathFinder, Loader):
    """Makes the modules below these top-level names."""

    def __init__(self, tops: frozenset[str]) -> None:
        self.tops = tops

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MODULES or fullname.partition(".")[0] not in self.tops:
            return None
        return ModuleSpec(fullname, self, origin="nova_sched", is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        for name, source in MODULES[module.__name__].items():
            owner, _, attribute = source.partition(":")
            found = importlib.import_module(owner)
            setattr(module, name, getattr(found, attribute) if attribute else found)


def install() -> frozenset[str]:
    """Make the modules importable; repeated calls change nothing. Returns the top-level names that are ours."""
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            return finder.tops
    tops = frozenset(name for name in MODULES if "." not in name and importlib.util.find_spec(name) is None)
    sys.meta_path.append(_Finder(tops))
    return tops


def remove() -> None:
    """Undo :func:`install` and forget the modules made."""
    ours = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
    for finder in ours:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in finder.tops]:
            del sys.modules[name]
