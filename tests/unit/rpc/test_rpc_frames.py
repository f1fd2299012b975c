"""Frames built by hand are what py-amqp's own reader understands, and the stream is cut where frames end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import amqp
import pytest
from amqp import serialization, spec
from amqp.basic_message import Message
from hypothesis import given
from hypothesis import strategies as st

from nova_sched.rpc.bus.frames import FrameReader, Outgoing, publish_frames, short_string


def read_back(pieces: list[bytes]) -> tuple[tuple[Any, ...], Message]:
    """The arguments of basic.publish and the message, by py-amqp's own deserialiser."""
    frames = FrameReader().feed(b"".join(pieces))
    kinds = [kind for kind, _, _ in frames]
    assert kinds == [1, 2] + [3] * (len(frames) - 2)
    assert {channel for _, channel, _ in frames} == {7}
    method = frames[0][2]
    assert method[:4] == bytes((0, spec.Basic.Publish[0], 0, spec.Basic.Publish[1]))
    arguments, _ = serialization.loads("Bssbb", method, 4)
    message = Message()
    message.inbound_header(frames[1][2])
    for _, _, body in frames[2:]:
        message.inbound_body(body)
    return tuple(arguments), message


@given(
    body=st.binary(min_size=1, max_size=3000),
    key=st.text(max_size=60),
    expiration=st.none() | st.integers(1, 10**9),
    mandatory=st.booleans(),
    frame_max=st.sampled_from([0, 64, 1000, 131072]),
)
def test_py_amqp_reads_what_was_written(
    body: bytes, key: str, expiration: int | None, mandatory: bool, frame_max: int
) -> None:
    """Exchange, key, flags, properties and body arrive as given, in as many body frames as the limit asks for."""
    headers: dict[str, str | int | bool] = {"reason": "näh", "count": 3, "flag": True}
    message = Outgoing("nova", key, body, "id-1", mandatory, expiration, headers)
    arguments, read = read_back(publish_frames(7, message, frame_max))
    assert arguments == (0, "nova", key, mandatory, False)
    assert bytes(read.body) == body
    expected: dict[str, Any] = {
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "application_headers": headers,
        "delivery_mode": 2,
        "priority": 0,
        "message_id": "id-1",
    }
    if expiration is not None:
        expected["expiration"] = str(expiration)
    assert read.properties == expected


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=20),
    bodies=st.lists(st.binary(max_size=90), max_size=5),
)
def test_a_stream_cut_anywhere_gives_the_same_frames(sizes: list[int], bodies: list[bytes]) -> None:
    """However the bytes arrive, the reader gives each frame once and keeps the rest."""
    stream = b"".join(
        piece for body in bodies for piece in publish_frames(1, Outgoing("e", "k", body, "m"), 40)
    )
    whole = FrameReader().feed(stream)
    reader, cut, position = FrameReader(), [], 0
    while position < len(stream):
        size = sizes[position % len(sizes)]
        cut += reader.feed(stream[position : position + size])
        position += size
    assert cut == whole
    assert len(reader) == 0


def test_a_broken_stream_is_noticed() -> None:
    """A frame without its end mark means that the position is lost: an error, not a wrong message."""
    with pytest.raises(ValueError, match="0xCE"):
        FrameReader().feed(b"\x01\x00\x01\x00\x00\x00\x01xy")


def test_short_strings_are_bounded() -> None:
    """AMQP cannot carry names beyond 255 bytes; that is said instead of corrupting the frame."""
    assert short_string("ü") == b"\x02\xc3\xbc"
    with pytest.raises(ValueError, match="255"):
        short_string("x" * 256)


def test_the_private_and_public_names_of_the_libraries_are_there() -> None:
    """A new release of oslo.messaging or py-amqp that moves what this package stands on fails here first."""
    from oslo_messaging import opts, transport
    from oslo_messaging._drivers import base, impl_rabbit
    from oslo_messaging._metrics import client as metrics_client
    from oslo_messaging._tracing import client as tracing_client
    from oslo_messaging.rpc import dispatcher

    driver = base.BaseDriver.__init__.__code__
    assert {"conf", "_url", "_default_exchange"} <= set(driver.co_names)
    assert callable(transport.Transport._listen)
    assert callable(transport.Transport._send_notification)
    assert transport.Transport(SimpleNamespace(conf=1))._driver.conf == 1
    assert issubclass(impl_rabbit.RabbitDriver, base.BaseDriver)
    assert callable(dispatcher.RPCDispatcher.dispatch)
    assert opts.list_opts()
    assert tracing_client.oslo_messaging_tracing
    assert metrics_client.oslo_messaging_metrics
    connection = amqp.Connection("localhost:1")
    for name in ("on_inbound_frame", "send_heartbeat", "collect", "frame_max", "channel", "heartbeat"):
        assert hasattr(type(connection), name) or name in vars(connection) or name == "heartbeat"
