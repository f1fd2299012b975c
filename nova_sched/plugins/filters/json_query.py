"""JsonFilter."""

from __future__ import annotations

import numpy as np

from nova_sched.errors import RequestRefused
from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._query import BrokenQuery, Call, parse
from nova_sched.plugins.filters._texts import clipped


class JsonFilter(HostFilter):
    """The hint ``query``, a JSON text, holds for the host; without a query, or with an empty one, every host passes.

    Operators: ``= < > <= >= in`` compare the first argument with each other one, ``and or not`` combine; ``not`` is
    true if any of its arguments is false. ``$name`` is an attribute of Juno's HostState, ``$stats.rack`` a member.
    """

    name = "JsonFilter"
    reason = "does not match the query"

    def check(self, request: SchedulingRequest) -> None:
        self._query(request)

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        query = self._query(request)
        return np.ones(len(view), dtype=np.bool_) if query is None else query.over(view).truth

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        return f"does not match the query {clipped(request.hints.get('query'))}"

    def _query(self, request: SchedulingRequest) -> Call | None:
        text = request.hints.get("query")
        if isinstance(text, tuple) and len(text) == 1:
            text = text[0]  # releases after Juno send every hint as a list
        if not text:
            return None
        try:
            if not isinstance(text, str):
                raise BrokenQuery("it is not a text")
            return parse(text)
        except BrokenQuery as broken:
            raise RequestRefused(self.name, f"query {clipped(text)!r}: {broken}") from None
