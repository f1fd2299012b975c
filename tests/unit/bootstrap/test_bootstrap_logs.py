"""No secret reaches a log, and no log line costs a request."""

from __future__ import annotations

import io
import logging

import pytest
from oslo_config import cfg

from nova_sched.bootstrap.logs import PRODUCT, SayingOnce, SecretFilter, masked, setup
from nova_sched.conf import build
from nova_sched.errors import ConfigurationError


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


@pytest.fixture
def lines(tmp_path):
    """Log a warning as the programs do while an exception is in hand; what the file then holds."""
    conf = build.parse(cfg.ConfigOpts(), files=[])
    conf.set_override("log_file", str(tmp_path / "a.log"))
    root = logging.getLogger()
    before = list(root.handlers), root.level, logging.getLogger(PRODUCT).level

    def written(text: str, error: Exception) -> str:
        setup(conf, "0")
        try:
            raise error
        except Exception as caught:
            logging.getLogger("test_bootstrap_logs").warning(text, caught)
        return (tmp_path / "a.log").read_text()

    yield written
    for handler in set(root.handlers) - set(before[0]):
        root.removeHandler(handler)
        handler.close()
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    logging.getLogger(PRODUCT).setLevel(before[2])


def test_cause_that_a_line_names_is_not_appended_once_more(lines):
    """oslo.log adds the exception in hand to each warning."""
    assert lines("cannot send: %s", OSError("no route")).count("no route") == 1


def test_cause_that_is_appended_is_masked(lines):
    """It comes behind the filter that masks what the line itself says."""
    text = lines("cannot send%.0s", OSError("password='s3cret' was refused"))
    assert "was refused" in text
    assert "s3cret" not in text


def test_log_folder_that_is_missing_is_a_configuration_error(tmp_path):
    """One line instead of a traceback, before anything runs."""
    conf = build.parse(cfg.ConfigOpts(), files=[])
    conf.set_override("log_dir", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match=r"log_dir = .*nowhere.*No such file"):
        setup(conf, "0")


def test_a_message_of_several_lines_has_its_prefix_on_each():
    """A batch's decisions are one record, and a line each for whoever reads or searches the file."""
    formatter = SayingOnce(logging.Formatter("12:00:00 %(levelname)s %(name)s %(message)s (end)"))
    record = logging.LogRecord("loop", logging.INFO, __file__, 1, "%s", ("first\nsecond",), None)
    assert formatter.format(record).splitlines() == [
        "12:00:00 INFO loop first (end)",
        "12:00:00 INFO loop second (end)",
    ]
    single = logging.LogRecord("loop", logging.INFO, __file__, 1, "only", None, None)
    assert formatter.format(single) == "12:00:00 INFO loop only (end)"
