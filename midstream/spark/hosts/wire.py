"""Messages between a worker and a cell's host: a small JSON header and blobs, nothing that could run code.

A message is the length of its header, the header, and the blobs whose lengths the header lists.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

_LENGTH = struct.Struct("<I")
_LARGEST_HEADER = 64 << 20
_LARGEST_BLOB = 1 << 31


class BrokenConnection(ConnectionError):
    """The other side has gone, or what it sent is no message."""


def send(connection: socket.socket, header: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Send a message."""
    text = json.dumps(header | {"blobs": [len(blob) for blob in blobs]}).encode()
    connection.sendall(_LENGTH.pack(len(text)) + text)
    for blob in blobs:
        connection.sendall(blob)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[bytes]]:
    """The next message."""
    (length,) = _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))
    if length > _LARGEST_HEADER:
        raise BrokenConnection(f"a header of {length} bytes")
    try:
        header = json.loads(_receive_exactly(connection, length))
        lengths = [int(size) for size in header.pop("blobs")]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as problem:
        raise BrokenConnection("the header is not JSON") from problem
    if any(not 0 <= size <= _LARGEST_BLOB for size in lengths):
        raise BrokenConnection("a blob that is too large")
    return header, [bytes(_receive_exactly(connection, size)) for size in lengths]


def _receive_exactly(connection: socket.socket, size: int) -> bytearray:
    content = bytearray(size)
    view = memoryview(content)
    while len(view):
        count = connection.recv_into(view, min(len(view), 1 << 20))
        if count == 0:
            raise BrokenConnection("the connection has ended")
        view = view[count:]
    return content
