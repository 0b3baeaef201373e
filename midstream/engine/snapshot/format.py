"""A snapshot: what has to survive for an engine to go on, as Arrow tables and a little JSON.

Of the rows only the base windows are in it. Join states are derived from them: after a restore each is a hole, and
fills as it is probed. Results that were held back are in it too, as they would have been returned.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from midstream.errors import SnapshotError
from midstream.tables import type_name

BytesLike: TypeAlias = bytes | bytearray | memoryview | pa.Buffer

VERSION = 2
_MAGIC = b"MIDSTREAM-SNAPSHOT"
#: Parts of a query's description whose order tells nothing.
_IN_ANY_ORDER = frozenset({"filters", "thetas"})


@dataclass(frozen=True)
class Snapshot:
    """What else the engine remembers, the rows of each input's base window by alias, and results that wait.

    `stage` has the tables of an output stage that remembers more than such results, by name.
    """

    meta: dict[str, Any]
    windows: dict[str, pa.Table]
    held: pa.Table
    stage: dict[str, pa.Table] = field(default_factory=dict)

    def __repr__(self) -> str:
        rows = sum(table.num_rows for table in self.windows.values())
        return f"<midstream.Snapshot of {self.meta.get('plan')}: {rows} rows>"

    @classmethod
    def of(
        cls, meta: dict[str, Any], windows: dict[str, pa.Table], held: pa.Table, stage: dict[str, pa.Table]
    ) -> Snapshot:
        """A snapshot that shares nothing with what it was taken of."""
        return cls(json.loads(json.dumps(meta)), windows, held, stage)

    def to_bytes(self) -> bytes:
        """One string of bytes that `from_bytes` takes back.

        >>> snapshot = Snapshot({"plan": "(a b)"}, {"a": pa.table({"id": [1, 2]})}, held=pa.table({"id": [3]}))
        >>> Snapshot.from_bytes(snapshot.to_bytes())
        <midstream.Snapshot of (a b): 2 rows>
        """
        blobs = {alias: _to_ipc(table) for alias, table in self.windows.items()}
        held = _to_ipc(self.held)
        stage = {name: _to_ipc(table) for name, table in self.stage.items()}
        header: dict[str, Any] = {"meta": self.meta, "windows": _lengths(blobs), "held": len(held)}
        if stage:
            header["stage"] = _lengths(stage)
        text = json.dumps(header).encode()
        content = b"".join([len(text).to_bytes(8, "little"), text, *blobs.values(), held, *stage.values()])
        prefix = [_MAGIC, VERSION.to_bytes(2, "little"), zlib.crc32(content).to_bytes(4, "little")]
        return b"".join([*prefix, content])

    @classmethod
    def from_bytes(cls, given: BytesLike) -> Snapshot:
        """The snapshot that `to_bytes` wrote, from anything that holds bytes.

        A `SnapshotError` if it is damaged or of another version.

        >>> Snapshot.from_bytes(b"something else")
        Traceback (most recent call last):
        midstream.errors.SnapshotError: snapshot: these bytes are not a Midstream snapshot
        """
        data = _bytes(given)
        begin = len(_MAGIC) + 6
        if data[: len(_MAGIC)] != _MAGIC or len(data) < begin + 8:
            raise SnapshotError("snapshot: these bytes are not a Midstream snapshot")
        check_version(int.from_bytes(data[len(_MAGIC) : begin - 4], "little"))
        if zlib.crc32(data[begin:]) != int.from_bytes(data[begin - 4 : begin], "little"):
            raise SnapshotError("snapshot: damaged or cut off; take it from another copy")
        at = begin + 8 + int.from_bytes(data[begin : begin + 8], "little")
        header = json.loads(data[begin + 8 : at])
        tables = []
        for length in (*header["windows"].values(), header["held"], *header.get("stage", {}).values()):
            tables.append(_from_ipc(data[at : at + length]))
            at += length
        windows = dict(zip(header["windows"], tables, strict=False))
        held, *stage = tables[len(windows) :]
        return cls(header["meta"], windows, held, dict(zip(header.get("stage", {}), stage, strict=True)))


def _bytes(given: BytesLike) -> bytes:
    if isinstance(given, bytes):
        return given
    try:
        return memoryview(given).tobytes()
    except (TypeError, BufferError):
        raise SnapshotError(
            f"snapshot: got {type_name(given)}; give a Snapshot, or what its to_bytes() gave as bytes or a buffer"
        ) from None


def check_version(version: int) -> None:
    """Refuse a snapshot that another version of Midstream wrote in another way."""
    if version != VERSION:
        raise SnapshotError(
            f"snapshot: format version {version}, but this Midstream reads version {VERSION}; "
            "go on with the Midstream that wrote it"
        )


def _lengths(blobs: Mapping[str, bytes]) -> dict[str, int]:
    return {name: len(blob) for name, blob in blobs.items()}


def _to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _from_ipc(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def same_or_reason(stored: Mapping[str, Any], current: Mapping[str, Any]) -> str | None:
    """The first difference between two descriptions of a query, as text, or None.

    Filters of an input and conditions that neither a key nor a band serves may stand in any order: nothing that is
    stored goes by it. Keys and bands may not, since stored codes are named by their places.
    """
    before, now = in_one_order(stored), in_one_order(current)
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            return f"{name}: the snapshot has {stored.get(name)!r}, the query has {current.get(name)!r}"
    return None


def in_one_order(described: Mapping[str, Any]) -> dict[str, Any]:
    """A description of a query in which what may stand in any order stands in one."""
    return {name: _sorted(part) if name in _IN_ANY_ORDER else part for name, part in described.items()}


def _sorted(described: Any) -> Any:
    """A description whose innermost lists are in an order that does not depend on the query's text."""
    if not isinstance(described, list):
        return described
    if any(isinstance(part, list) for part in described):
        return [_sorted(part) for part in described]
    return sorted(described, key=repr)
