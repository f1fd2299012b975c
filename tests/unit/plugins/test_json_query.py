"""JsonFilter: operators, variables, missing values, broken queries."""

from __future__ import annotations

import json

import pytest

from nova_sched.testing.builders import host, request
from nova_sched.testing.deciding import decide, passing, reason_of, settings

HOSTS = [
    host("j1", free_ram_mb=24000, free_disk_gb=100, stats={"num_instances": "1", "rack": "r1"}),
    host("j2", free_ram_mb=16000, free_disk_gb=300, stats={"num_instances": "4", "rack": "r2"}),
    host("j3", free_ram_mb=8000, free_disk_gb=500, stats={"num_instances": "9"}, disabled=True),
    host("j4", free_ram_mb=None, stats="{"),
]
ALL = ["j1", "j2", "j3", "j4"]
QUERIES = {
    "at least": ([">=", "$free_ram_mb", 16000], ["j1", "j2"]),
    "unit is MB": ([">=", "$free_disk_mb", 204800], ["j2", "j3", "j4"]),
    "GB where Nova has GB": (["=", "$total_usable_disk_gb", 500], ALL),
    "and": (["and", [">", "$free_ram_mb", 10000], [">=", "$free_disk_mb", 204800]], ["j2"]),
    "or": (["or", ["<", "$free_ram_mb", 10000], ["=", "$host", "j1"]], ["j1", "j3"]),
    "not": (["not", ["=", "$host", "j1"]], ["j2", "j3", "j4"]),
    "not of several is any": (["not", ["=", "$host", "j1"], ["=", "$host", "j2"]], ALL),
    "nested not is a boolean": (
        ["and", ["not", ["=", "$host", "j1"]], [">", "$free_ram_mb", 0]],
        ["j2", "j3"],
    ),
    "in": (["in", "$host", "j1", "j3"], ["j1", "j3"]),
    "in a path": (["in", "$stats.rack", "r1", "r9"], ["j1"]),
    "first against each other": (["<", "$free_ram_mb", 20000, 10000], ["j3"]),
    "one argument is false": (["=", "$free_ram_mb"], []),
    "unknown variable is dropped": (["=", "$no_such", 5], []),
    "two arguments are left": (["=", "$no_such", 5, 5], ALL),
    "null is dropped": (["=", None, 3, 3], ALL),
    "the empty text is dropped": (["=", "", 3, 3], ALL),
    "unknown value is dropped per row": (["<", "$free_ram_mb", 1, 2], ["j4"]),
    "path into a number": (["=", "$free_ram_mb.x", 5, 5], ALL),
    "path into a text": (["=", "$cpu_info.vendor", "Intel", "Intel"], ALL),
    "text never matches a number": (["<", "$free_ram_mb", "10"], []),
    "number never matches a text": ([">", "$stats.rack", 1], []),
    "texts compare as texts": ([">=", "$stats.num_instances", "4"], ["j2", "j3"]),
    "count is the attribute": (["<", "$num_instances", 5], ["j1", "j2"]),
    "service": (["=", "$service.disabled", False], ["j1", "j2", "j4"]),
    "service host": (["=", "$service.host", "j2"], ["j2"]),
    "constants are true": (["and", "yes", "no"], ALL),
    "zero is false": (["or", 0, []], ALL),
    "and of nothing": (["and"], ALL),
    "or of nothing": (["or"], []),
    "not of nothing": (["not"], []),
    "empty list": ([], ALL),
    "empty object": ({}, ALL),
}


@pytest.mark.parametrize("query, names", QUERIES.values(), ids=QUERIES)
def test_query(query, names):
    """Which hosts a query lets pass."""
    assert passing("JsonFilter", HOSTS, request(hints={"query": json.dumps(query)})) == names


@pytest.mark.parametrize("hints", [{}, {"query": ""}, {"query": None}, {"query": ()}, {"query": ("[]",)}])
def test_no_query(hints):
    """Without a query every host passes."""
    assert passing("JsonFilter", HOSTS, request(hints=hints)) == ALL


@pytest.mark.parametrize(
    "query, named",
    [
        ('["!=", "$free_ram_mb", 10]', "!="),
        ('["=", ', '["=", '),
        ('{"a": 1}', '{"a": 1}'),
        ("5", "5"),
        ('["and", ["xor", 1, 2]]', "xor"),
        ('[["="], 1]', "unknown operator"),
        ("[" * 5000, "not valid JSON"),
        (json.dumps(["=", 10**400, 1]), "bits"),
        ("[" + '"and", [' * 60 + '"and"' + "]" * 61, "nested deeper"),
        ((">=", "$free_ram_mb", 1), "not a text"),
    ],
)
def test_broken_query_is_refused(query, named):
    """The reason names the filter and the query or its operator."""
    reason = reason_of(decide(HOSTS, request(hints={"query": query}), settings(["JsonFilter"])))
    assert reason.startswith("JsonFilter: query ")
    assert named in reason
