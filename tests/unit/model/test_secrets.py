"""Secrets are found by their keys and masked whole, whatever characters they are made of."""

from __future__ import annotations

import json

import pytest

from nova_sched.model.secrets import MASK, secrets_in, without

AWKWARD = [
    "plain-secret",
    'it\'s "quoted"',
    "line one\nline two\ttab",
    "пароль-ü",
    "back\\slash\\",
    "a%20b&c=d",
]


@pytest.mark.parametrize("secret", AWKWARD)
@pytest.mark.parametrize(
    "shown", [str, repr, json.dumps, lambda text: json.dumps({"k": [text]}, ensure_ascii=False), ascii]
)
def test_a_secret_is_masked_in_every_form_a_text_may_have_it(secret, shown):
    """As it is, as Python shows it, as JSON writes it."""
    text = f"broke: {shown(secret)} was wrong"
    masked = without(text, secrets_in({"args": [{"admin_password": secret}]}))
    assert MASK in masked
    for piece in secret.split():
        assert piece.strip("'\"\\") not in masked or piece in "was wrong"


def test_only_what_stands_under_a_secret_key_is_secret():
    """Everything below such a key counts, nothing beside it, and no text too short to be one."""
    message = {
        "context": {"auth_token": "tok-1", "user_id": "user-1"},
        "args": {"injected_files": [["/etc/motd", "aGVsbG8="]], "pass": "abc", "metadata": {"a": "visible"}},
    }
    assert secrets_in(message) == {"tok-1", "/etc/motd", "aGVsbG8="}
