"""Messages between a worker and a host: what is sent arrives, and what is no message is refused."""

from __future__ import annotations

import json
import pickle
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from midstream.spark.hosts import wire


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        left.settimeout(10)
        right.settimeout(10)
        yield left, right


def _framed(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text


@pytest.mark.parametrize("blobs", [[], [b""], [b"one", b"", b"three" * 1000], [bytes(range(256)) * 40_000]])
def test_what_is_sent_arrives(ends: tuple[socket.socket, socket.socket], blobs: list[bytes]) -> None:
    left, right = ends
    header = {"do": "push", "text": "naïve ✓", "number": 2**62, "none": None}
    sender = threading.Thread(target=wire.send, args=(left, header, blobs))
    sender.start()
    assert wire.receive(right) == (header, blobs)
    sender.join()


def test_messages_follow_each_other(ends: tuple[socket.socket, socket.socket]) -> None:
    left, right = ends
    for number in range(20):
        wire.send(left, {"number": number}, [b"x" * number])
    for number in range(20):
        assert wire.receive(right) == ({"number": number}, [b"x" * number])


@pytest.mark.parametrize(
    "sent",
    [
        _framed(b"\xff\xfe\x00garbage"),
        _framed(b""),
        _framed(b"[1, 2]"),
        _framed(b"7"),
        _framed(b"null"),
        _framed(b"{}"),
        _framed(b'{"blobs": null}'),
        _framed(b'{"blobs": ["many"]}'),
        _framed(b'{"blobs": [-1]}'),
        _framed(b'{"blobs": [Infinity]}'),
        _framed(b'{"blobs": [' + b"9" * 30 + b"]}"),
        _framed(json.dumps({"blobs": [1, 1 << 40]}).encode()),
        _framed(b"[" * 200_000),
        _framed(pickle.dumps({"blobs": []})),
        struct.pack("<I", (64 << 20) + 1),
        struct.pack("<I", 0xFFFFFFFF) + b"x" * 100,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_message_is_refused(ends: tuple[socket.socket, socket.socket], sent: bytes) -> None:
    left, right = ends
    sender = threading.Thread(target=left.sendall, args=(sent,))
    sender.start()
    with pytest.raises(wire.BrokenConnection):
        wire.receive(right)
    sender.join()


def test_a_message_that_breaks_off_is_refused() -> None:
    whole = _framed(json.dumps({"do": "push", "blobs": [3, 50]}).encode()) + b"x" * 53
    for size in range(len(whole)):
        left, right = socket.socketpair()
        with right:
            with left:
                left.sendall(whole[:size])
            with pytest.raises(wire.BrokenConnection):
                wire.receive(right)
