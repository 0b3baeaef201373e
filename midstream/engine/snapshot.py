"""A snapshot: what has to survive for an engine to go on, as Arrow tables and a little JSON.

Only the base windows are in it. Join states are derived from them: after a restore each is a hole, and fills as it is
probed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from midstream.errors import SnapshotError

VERSION = 1
_MAGIC = b"MIDSTREAM-SNAPSHOT"


@dataclass(frozen=True)
class Snapshot:
    """The rows of each input's base window, by alias, and what else the engine remembers."""

    meta: dict[str, Any]
    windows: dict[str, pa.Table]

    @classmethod
    def of(cls, meta: dict[str, Any], windows: dict[str, pa.Table]) -> Snapshot:
        """A snapshot that shares nothing with what it was taken of."""
        return cls(json.loads(json.dumps(meta)), windows)

    def to_bytes(self) -> bytes:
        """One string of bytes that `from_bytes` takes back."""
        blobs = {alias: _to_ipc(table) for alias, table in self.windows.items()}
        header = {"version": VERSION, "meta": self.meta, "windows": {alias: len(blob) for alias, blob in blobs.items()}}
        text = json.dumps(header).encode()
        return b"".join([_MAGIC, len(text).to_bytes(8, "little"), text, *blobs.values()])

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """The snapshot that `to_bytes` wrote; a `SnapshotError` if it is damaged or of another version."""
        begin = len(_MAGIC) + 8
        if data[: len(_MAGIC)] != _MAGIC or len(data) < begin:
            raise SnapshotError("snapshot: these bytes are not a Midstream snapshot")
        size = int.from_bytes(data[len(_MAGIC) : begin], "little")
        try:
            header = json.loads(data[begin : begin + size])
            check_version(header["version"])
            windows: dict[str, pa.Table] = {}
            at = begin + size
            for alias, length in header["windows"].items():
                if at + length > len(data):
                    raise SnapshotError(f"snapshot: cut off in the rows of {alias!r}; take it from a whole copy")
                windows[alias] = _from_ipc(data[at : at + length])
                at += length
            return cls(header["meta"], windows)
        except (ValueError, KeyError, TypeError, pa.ArrowInvalid, OSError) as problem:
            raise SnapshotError(f"snapshot: damaged ({problem}); take it from another copy") from None


def check_version(version: object) -> None:
    """Refuse a snapshot that another version of Midstream wrote in another way."""
    if version != VERSION:
        raise SnapshotError(f"snapshot: format version {version}, but this Midstream reads version {VERSION}")


def _to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _from_ipc(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def same_or_reason(stored: Mapping[str, Any], current: Mapping[str, Any]) -> str | None:
    """The first difference between two descriptions of a query, as text, or None."""
    for name in dict.fromkeys([*stored, *current]):
        if stored.get(name) != current.get(name):
            return f"{name}: the snapshot has {stored.get(name)!r}, the query has {current.get(name)!r}"
    return None
