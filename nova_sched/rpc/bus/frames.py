"""Publish frames of AMQP 0-9-1, built by hand: one ``bytes.join`` per batch instead of py-amqp's per-message writer.

Layout (big-endian): frame = type(1) channel(2) size(4) payload end(0xCE); a message is one method frame
(basic.publish), one header frame (size of the body, properties) and as many body frames as ``frame_max`` asks for.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nova_sched.model.quick import quick_init

_FRAME = struct.Struct(">BHI")
_HEADER = struct.Struct(">HHQH")
_END = b"\xce"
_METHOD, _CONTENT_HEADER, _BODY = 1, 2, 3
_BASIC_CLASS = 60
_BASIC_PUBLISH = b"\x00\x3c\x00\x28\x00\x00"
_CONTENT_TYPE = b"\x10application/json"
_CONTENT_ENCODING = b"\x05utf-8"
_PERSISTENT, _TRANSIENT = b"\x02", b"\x01"
_NO_PRIORITY = b"\x00"
# Property flags in the order of the specification, highest bit first.
_FLAGS = (
    1 << 15 | 1 << 14 | 1 << 13 | 1 << 12 | 1 << 11 | 1 << 7
)  # type, encoding, headers, mode, priority, id
_FLAG_EXPIRATION = 1 << 8
_FRAME_OVERHEAD = 8


@quick_init
@dataclass(frozen=True, slots=True)
class Outgoing:
    """One rendered message.

    ``expiration_ms``: life time in the broker, None = no end. ``needs``: declarations that must exist before it
    is published (values of ``topology``).
    """

    exchange: str
    routing_key: str
    body: bytes = field(repr=False)
    message_id: str
    mandatory: bool = True
    expiration_ms: int | None = None
    headers: Mapping[str, str | int | bool] = field(default_factory=dict)
    persistent: bool = True
    needs: tuple[Any, ...] = ()


def short_string(text: str) -> bytes:
    """AMQP short string: one length byte, at most 255 bytes of UTF-8."""
    raw = text.encode()
    if len(raw) > 255:
        raise ValueError(f"an AMQP short string holds 255 bytes, this has {len(raw)}: {text[:60]!r}…")
    return bytes((len(raw),)) + raw


def table(entries: Mapping[str, str | int | bool]) -> bytes:
    """AMQP field table of texts, integers and booleans."""
    parts = []
    for name, value in entries.items():
        if isinstance(value, bool):
            rendered = b"t" + (b"\x01" if value else b"\x00")
        elif isinstance(value, int):
            rendered = b"l" + struct.pack(">q", value)
        else:
            raw = value.encode()
            rendered = b"S" + struct.pack(">I", len(raw)) + raw
        parts.append(short_string(name) + rendered)
    content = b"".join(parts)
    return struct.pack(">I", len(content)) + content


def publish_frames(channel: int, message: Outgoing, frame_max: int) -> list[bytes]:
    """The frames of one message, as pieces to join.

    :param frame_max: negotiated size of a whole frame in bytes; 0 means no limit.
    """
    method = b"".join(
        (
            _BASIC_PUBLISH,
            short_string(message.exchange),
            short_string(message.routing_key),
            b"\x01" if message.mandatory else b"\x00",
        )
    )
    flags, expiration = _FLAGS, b""
    if message.expiration_ms is not None:
        flags |= _FLAG_EXPIRATION
        expiration = short_string(str(message.expiration_ms))
    header = b"".join(
        (
            _HEADER.pack(_BASIC_CLASS, 0, len(message.body), flags),
            _CONTENT_TYPE,
            _CONTENT_ENCODING,
            table(message.headers),
            _PERSISTENT if message.persistent else _TRANSIENT,
            _NO_PRIORITY,
            expiration,
            short_string(message.message_id),
        )
    )
    pieces = [
        _FRAME.pack(_METHOD, channel, len(method)),
        method,
        _END,
        _FRAME.pack(_CONTENT_HEADER, channel, len(header)),
        header,
        _END,
    ]
    body = message.body
    step = frame_max - _FRAME_OVERHEAD if frame_max else max(1, len(body))
    for start in range(0, len(body), step):
        chunk = body[start : start + step]
        pieces += (_FRAME.pack(_BODY, channel, len(chunk)), chunk, _END)
    return pieces


class FrameReader:
    """Cuts a byte stream into frames; keeps what is incomplete."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """All complete frames so far as (type, channel, payload).

        :raises ValueError: the stream is not AMQP frames any more.
        """
        buffer = self._buffer
        buffer += data
        frames = []
        position, size = 0, len(buffer)
        while size - position >= _FRAME_OVERHEAD:
            kind, channel, length = _FRAME.unpack_from(buffer, position)
            end = position + 7 + length
            if end >= size:
                break
            if buffer[end] != 0xCE:
                raise ValueError(f"frame does not end with 0xCE but {buffer[end]:#04x}")
            frames.append((kind, channel, bytes(buffer[position + 7 : end])))
            position = end + 1
        if position:
            del buffer[:position]
        return frames
