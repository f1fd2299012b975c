"""oslo.log with request and instance ids, and a filter that no secret passes."""

from __future__ import annotations

import logging
import re
import traceback
from typing import Any

from oslo_log import log
from oslo_utils import strutils

from nova_sched.errors import ConfigurationError

PRODUCT = "nova_sched"
QUIET_LEVELS = (
    "amqp=WARNING",
    "amqplib=WARNING",
    "kombu=WARNING",
    "oslo.messaging=INFO",
    "oslo_messaging=INFO",
    "oslo_service=WARNING",
    "sqlalchemy=WARNING",
    "alembic=WARNING",
    "stevedore=WARNING",
    "urllib3=WARNING",
    "cotyledon=WARNING",
)

#: Without one of these in a line there is nothing to mask; every line is looked at, so plain words are looked for.
_SUSPICIOUS = ("pass", "token", "secret", "injected_files", "user_data", "auth", "key", "@")
_URL_CREDENTIALS = re.compile(r"(://[^:/\s@]*):[^\s]*@(?=[^@\s]*)")
_LONG_SECRETS = re.compile(
    r"""(['"]?(?:injected_files|user_data)['"]?\s*[:=]\s*)(\[.*?\]|'[^']*'|"[^"]*"|[^\s,}]+)"""
)


def masked(text: str) -> str:
    """The text without passwords, tokens, keys, URL credentials, injected files and user data."""
    lowered = text.lower()
    if not any(word in lowered for word in _SUSPICIOUS):
        return text
    text = _URL_CREDENTIALS.sub(r"\1:***@", text)
    return strutils.mask_password(_LONG_SECRETS.sub(r"\1***", text))


class SecretFilter(logging.Filter):
    """Masks a record that is about to be written, its traceback included; costs nothing for lines that are not."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record in place; every record passes."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)  # a wrong format string must not cost the line, let alone the request
        record.msg, record.args = masked(text), None
        if record.exc_info and not record.exc_text:
            record.exc_text = masked("".join(traceback.format_exception(*record.exc_info)).rstrip())
        return True


def on_every_line(text: str, record: logging.LogRecord) -> str:
    """The text of a record whose message has several lines, with what stands before the message on each of them."""
    message = record.getMessage()
    if "\n" not in message or record.exc_info:
        return text
    before, found, after = text.partition(message)
    return "\n".join(f"{before}{line}{after}" for line in message.split("\n")) if found else text


class SayingOnce(logging.Formatter):
    """Another formatter's text, its prefix on every line, without the exception in hand where the line tells it already.

    oslo.log appends that exception to warnings and errors behind every filter, so its secrets are masked here.
    """

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        """The text."""
        text = on_every_line(self._formatter.format(record), record)
        summary = getattr(record, "error_summary", "")
        if not summary or record.exc_info:
            return text
        name, _, cause = summary.partition(": ")
        said = record.getMessage()
        if (cause and masked(cause) in said) or name in said:
            text = text.removesuffix(f": {summary}")
        return masked(text)


def setup(conf: Any, version: str) -> None:
    """Log as the configuration says, chatty libraries quieter, secrets masked.

    :raises ConfigurationError: the log cannot be written where the configuration wants it.
    """
    log.set_defaults(default_log_levels=list(QUIET_LEVELS))
    try:
        log.setup(conf, PRODUCT, version=version)
    except OSError as error:
        where = "log_file" if conf.log_file else "log_dir"
        reason = f"a folder that exists and may be written ({error.strerror})"
        raise ConfigurationError(where, error.filename, reason) from None
    except log.LogConfigError as error:
        reason = f"a file of logging's own format ({error.err_msg})"
        raise ConfigurationError("log_config_append", error.log_config, reason) from None
    for handler in logging.getLogger().handlers:
        if not any(isinstance(found, SecretFilter) for found in handler.filters):
            handler.addFilter(SecretFilter())
        if handler.formatter is not None and not isinstance(handler.formatter, SayingOnce):
            handler.setFormatter(SayingOnce(handler.formatter))


def apply_levels(conf: Any) -> None:
    """Levels of another configuration on the running loggers (SIGHUP)."""
    root = logging.getLogger()
    root.setLevel(logging.DEBUG if conf.debug else logging.INFO)
    for pair in conf.default_log_levels:
        name, _, level = pair.partition("=")
        logging.getLogger(name).setLevel(level.strip() or logging.NOTSET)
