"""From what the broker delivered to a message in hand, whatever the bytes are."""

from __future__ import annotations

import bz2
import zlib
from typing import Any

import amqp

from nova_sched.rpc.bus.envelope import UNIQUE_ID, BodyLimits, Poison, decode_message, split_context
from nova_sched.rpc.bus.taken import Taken


def read_delivery(message: amqp.Message, limits: BodyLimits) -> Taken:
    """A delivery as a message in hand; one that cannot be processed carries its ``poison`` reason. Never raises."""
    info = message.delivery_info
    body = _as_bytes(message.body)
    reason, content = None, {}
    try:
        content = decode_message(_unpacked(message, body, limits), limits)
    except Poison as poison:
        reason, content = poison.reason, poison.message or {}
    taken = taken_from(content)
    taken.body = body
    taken.poison = reason
    taken.tag = info["delivery_tag"]
    taken.redelivered = bool(info["redelivered"])
    taken.exchange, taken.routing_key = info["exchange"], info["routing_key"]
    return taken


def taken_from(content: dict[str, Any]) -> Taken:
    """A decoded message split into context, addresses for the reply, and what the dispatcher reads."""
    context = split_context(content)
    timeout = content.pop("_timeout", None)
    msg_id, reply_q = _text(content.pop("_msg_id", None)), _text(content.pop("_reply_q", None))
    return Taken(
        message=content,
        ctxt=context,
        unique_id=_text(content.pop(UNIQUE_ID, None)),
        msg_id=msg_id,
        reply_q=reply_q,
        wants_reply=bool(msg_id and reply_q),
        monitor_timeout_seconds=float(timeout) if isinstance(timeout, int | float) and timeout > 0 else None,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _as_bytes(body: Any) -> bytes:
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    return bytes(body or b"")


def _unpacked(message: amqp.Message, body: bytes, limits: BodyLimits) -> bytes:
    """The body, decompressed when the sender's ``kombu_compression`` says so; bounded while it grows."""
    headers = message.properties.get("application_headers") or {}
    compression = headers.get("compression") if isinstance(headers, dict) else None
    if not compression:
        return body
    if compression in ("application/x-gzip", "gzip", "zlib"):
        inflate: Any = zlib.decompressobj()
    elif compression in ("application/x-bz2", "bzip2"):
        inflate = bz2.BZ2Decompressor()
    else:
        raise Poison(f"the compression {str(compression)[:40]!r} is not supported")
    try:
        return bytes(inflate.decompress(body, limits.max_bytes + 1))
    except (zlib.error, OSError, EOFError) as error:
        raise Poison(f"the body cannot be decompressed: {error}") from None
