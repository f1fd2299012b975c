"""A section binds options to the fields of one settings class.

The field's default is the option's default, so the numbers stand once, in ``settings.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg
from oslo_config import types as oslo_types

from nova_sched.conf.types import Refused, trimmed
from nova_sched.errors import ConfigurationError

UNSET: Any = object()


@dataclass(frozen=True, slots=True)
class Item:
    """One option.

    :ivar type: how text becomes a value; says its bounds.
    :ivar help: for the operator on call: effect, unit, why this default, what it works together with.
    :ivar name: option name where it differs from the field's.
    :ivar group: option group where it differs from the section's; ``"DEFAULT"`` or a name.
    :ivar also: later releases' or older names, as ``group.name``.
    :ivar multi: may be given on several lines (each of which may be a comma list).
    :ivar default: where it is not the field's default, because it depends on the machine.
    :ivar library: the option belongs to a library, which registers it; only the value is read here.
    """

    type: oslo_types.ConfigType
    help: str
    name: str | None = None
    group: str | None = None
    also: tuple[str, ...] = ()
    multi: bool = False
    secret: bool = False
    mutable: bool = False
    default: Any = UNSET
    sample_default: str | None = None
    library: bool = False


class Section:
    """Options of one module and the settings class they fill.

    :param settings: the dataclass, or None for options that fill no field (they are read by name).
    :param group: option group of items that name none.
    :param items: field name (or option name without a settings class) to item.
    :param nested: fields that other sections fill.
    :ivar unreachable: fields that no option fills; a test wants none.
    """

    def __init__(
        self,
        settings: type | None,
        group: str,
        items: Mapping[str, Item],
        nested: frozenset[str] = frozenset(),
    ) -> None:
        self._opts: dict[str, tuple[str, cfg.Opt]] = {}
        self._foreign = frozenset(field for field, item in items.items() if item.library)
        defaults = field_defaults(settings) if settings is not None else {}
        unknown = set(items) - set(defaults) if settings is not None else set()
        if unknown:
            raise TypeError(f"{settings}: no such fields: {unknown}")
        self.settings = settings
        self.unreachable = set(defaults) - set(items) - nested
        for field, item in items.items():
            default = defaults.get(field) if item.default is UNSET else item.default
            self._opts[field] = (item.group or group, _option(item.name or field, item, default))

    def __iter__(self) -> Iterator[tuple[str, str, cfg.Opt]]:
        """Field, group and option of each item."""
        return ((field, group, opt) for field, (group, opt) in self._opts.items())

    def option(self, field: str) -> cfg.Opt:
        """The option that fills a field."""
        return self._opts[field][1]

    def register_opts(self, conf: cfg.ConfigOpts, *, libraries: bool = False) -> None:
        """Register the options; those that belong to a library only where the library is left out."""
        for group, opt in self._opts.values() if libraries else self._own():
            conf.register_opt(opt, group=None if group == "DEFAULT" else group)

    def list_opts(self) -> list[tuple[str, list[cfg.Opt]]]:
        """Groups with their options, for the sample file and the reference."""
        groups: dict[str, list[cfg.Opt]] = {}
        for group, opt in self._own():
            groups.setdefault(group, []).append(opt)
        return list(groups.items())

    def set_library_defaults(self, conf: cfg.ConfigOpts) -> None:
        """Make our defaults those of the libraries' options that are read here."""
        for field in self._foreign:
            group, opt = self._opts[field]
            conf.set_default(opt.dest, opt.default, group=None if group == "DEFAULT" else group)

    def foreign(self) -> list[cfg.Opt]:
        """Options that belong to a library, with our defaults."""
        return [self._opts[field][1] for field in sorted(self._foreign)]

    def _own(self) -> list[tuple[str, cfg.Opt]]:
        return [pair for field, pair in self._opts.items() if field not in self._foreign]

    def values(self, conf: cfg.ConfigOpts) -> dict[str, Any]:
        """Values by field: lists as tuples, empty texts of optional fields as None. Raises ConfigurationError."""
        return {field: _settled(read(conf, group, opt), opt) for field, (group, opt) in self._opts.items()}


def option_name(group: str | None, name: str | None) -> str:
    """``name``, or ``group.name`` outside of ``[DEFAULT]``."""
    return str(name) if group in (None, "DEFAULT") else f"{group}.{name}"


def read(conf: cfg.ConfigOpts, group: str, opt: cfg.Opt) -> Any:
    """Value of a registered option. Raises ConfigurationError with option, value and expectation."""
    try:
        return conf[opt.dest] if group == "DEFAULT" else conf[group][opt.dest]
    except cfg.NoSuchOptError:
        name = option_name(group, opt.name)
        raise ConfigurationError(
            name, None, "a value without $name of an unknown option; $$ is a dollar"
        ) from None
    except (cfg.ConfigSourceValueError, cfg.TemplateSubstitutionError, ValueError) as error:
        refused = _refusal(error)
        name = option_name(group, opt.name)
        if refused is not None:
            raise ConfigurationError(name, refused.value, refused.expected) from None
        raise ConfigurationError(name, None, f"a value that can be read ({error})") from None


def field_defaults(settings: type) -> dict[str, Any]:
    """Default of each field of a settings class."""
    return {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in dataclasses.fields(settings)
    }


def _option(name: str, item: Item, default: Any) -> cfg.Opt:
    aliases = [
        cfg.DeprecatedOpt(alias.rpartition(".")[2], group=alias.rpartition(".")[0]) for alias in item.also
    ]
    options: dict[str, Any] = {
        "default": list(default) if isinstance(default, tuple) else default,
        "help": " ".join(item.help.split()),
        "deprecated_opts": aliases,
        "secret": item.secret,
        "sample_default": item.sample_default,
    }
    if item.multi:
        return cfg.MultiStrOpt(name, mutable=item.mutable, **options)
    return cfg.Opt(name, type=item.type, mutable=item.mutable, **options)


def _settled(value: Any, opt: cfg.Opt) -> Any:
    if isinstance(value, list | tuple):
        return tuple(trimmed(value))
    if value == "" and opt.default is None:
        return None
    return value


def _refusal(error: BaseException | None) -> Refused | None:
    while error is not None and not isinstance(error, Refused):
        error = error.__cause__ or error.__context__
    return error
