"""Requirements of extra specs: an operator and its operand, or plain text.

============================  ============================================================================
``= 8``                       the host's number is at least 8 (historic)
``== 8  != 8  >= 8  <= 8``    numbers
``s== a  s!=  s<  s<=  s>  s>=``  texts, in the order of their characters
``<in> avx``                  the text contains it
``<or> a <or> b``             the text is one of these
anything else                 the whole text is equal
============================  ============================================================================

Words after the first operand are ignored. An operator without operand matches nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from nova_sched.errors import RequestRefused
from nova_sched.plugins.filters._texts import clipped

_NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
_TEXTUAL: dict[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
    "<in>": operator.contains,
}
_OR = "<or>"


def match(value: str, requirement: str) -> bool:
    """Whether a host's value, as text, satisfies a requirement. Raises nothing."""
    words = requirement.split()
    if not words:
        return value == requirement
    sign, operands = words[0], words[1:]
    if sign == _OR:
        return value in operands[::2]
    if sign in _NUMERIC:
        return bool(operands) and _compare(value, operands[0], _NUMERIC[sign])
    if sign in _TEXTUAL:
        return bool(operands) and _TEXTUAL[sign](value, operands[0])
    return value == requirement


def _compare(value: str, operand: str, holds: Callable[[float, float], bool]) -> bool:
    try:
        return holds(float(value), float(operand))
    except ValueError:
        return False


def is_broken(requirement: str) -> bool:
    """``<or>`` without a value."""
    return requirement.split() == [_OR]


def refuse_broken(plugin: str, key: str, requirement: str) -> None:
    """Raise RequestRefused when no host could be asked this."""
    if is_broken(requirement):
        raise RequestRefused(plugin, f"{clipped(key)} = {requirement!r}: <or> needs a value")
