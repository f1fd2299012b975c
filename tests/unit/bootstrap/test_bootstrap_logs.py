"""No secret reaches a log, and no log line costs a request."""

from __future__ import annotations

import io
import logging

import pytest

from nova_sched.bootstrap.logs import SecretFilter, masked


@pytest.mark.parametrize(
    "text",
    [
        "{'admin_password': 's3cret'}",
        '{"auth_token": "s3cret"}',
        "connecting to rabbit://nova:s3cret@broker:5672/",
        "cannot reach mysql+pymysql://nova:s3cr@et@h/d",
        "password = s3cret",
        "{'injected_files': [['/etc/x', 's3cret']], 'a': 1}",
        "'user_data': 's3cret'",
        "user_data=s3cret",
    ],
)
def test_secrets_are_masked(text):
    """Passwords, tokens, credentials in URLs, injected files and user data."""
    assert "s3cr" not in masked(text)


def test_other_text_is_left_alone():
    """Host names, uuids and numbers stay readable."""
    text = "instance 4f2c on host-7: 2048 MB of http://example.org/metrics"
    assert masked(text) == text


@pytest.fixture
def log():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(SecretFilter())
    logger = logging.getLogger("test_bootstrap_logs")
    logger.addHandler(handler)
    logger.propagate = False
    yield logger, stream
    logger.removeHandler(handler)
    logger.propagate = True


def test_traceback_is_masked(log):
    """What an exception carries is written like everything else."""
    logger, stream = log
    try:
        raise ValueError("login with password='s3cret' failed")
    except ValueError:
        logger.exception("broke")
    assert "ValueError" in stream.getvalue()
    assert "s3cret" not in stream.getvalue()


def test_lp1253875_wrong_format_string_costs_nothing(log):
    """A broken format is written as it stands instead of raising."""
    logger, stream = log
    logger.warning("%d hosts of %s", "many")
    assert "hosts of" in stream.getvalue()


def test_lp1790126_any_text_is_safe(log):
    """Names of guests may be in any alphabet."""
    logger, stream = log
    logger.warning("name %s", "тест\udc80".encode("utf-8", "replace").decode())
    assert "тест" in stream.getvalue()
