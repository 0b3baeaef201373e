"""What a cell remembers beside its parcels: one value of bytes in the state store.

It lists the parcels with the moment at which the last of their rows leaves its window, so that no batch has to scan the
store, and says what they belong to: the routing, the query, the plan. The layout can change only inside these bytes,
which carry a format number: Spark keeps the types of a checkpoint's state variables for ever.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from midstream.errors import SparkError

FORMAT = 1
#: The lane of the parcels that are pieces of an engine's snapshot, for queries whose rows do not tell their order.
SNAPSHOT_LANE = -1
#: So many stored parcels of about one size become one.
MERGED_AT_ONCE = 8
_SMALLEST_TIER = 64 << 10
_TIERS = 3
_MAGIC = b"MIDSTREAM-CELL"
#: A ledger of a Midstream that did not count batches goes on from here, above all numbers that Spark gave them.
_UNCOUNTED = 1 << 40
_HEAD = len(_MAGIC) + 2 + 4
#: What only executors that route have to tell.
_OF_ROUTING = ("policy_in_code", "router")


@dataclass(frozen=True)
class Parcel:
    """A stored parcel. `until` is when the last of its rows leaves its window, or None if they stay for ever."""

    sequence: int
    lane: int
    rows: int
    size: int
    until: int | None

    @property
    def key(self) -> tuple[int, int]:
        """Its key in the state store."""
        return self.sequence, self.lane


@dataclass
class Ledger:
    """A cell's memory. `watermark` and `timer` are in milliseconds, as Spark has them.

    `batches` have ended. `newest` is the latest event time of each source, in microseconds. `router` is the record of
    the engine's routing, if its executor has one.
    """

    routing: dict[str, Any]
    query: dict[str, Any]
    windows: list[list[Any]]
    columns: dict[str, dict[str, str]]
    plan_in_code: str | None
    plan: str | None = None
    stamp: str = ""
    batches: int = 0
    watermark: int = 0
    timer: int | None = None
    next_sequence: int = 0
    parcels: list[Parcel] = field(default_factory=list)
    newest: dict[str, int] = field(default_factory=dict)
    policy_in_code: str | None = None
    router: dict[str, Any] | None = None

    def to_bytes(self) -> bytes:
        """What is stored."""
        parcels = [[parcel.sequence, parcel.lane, parcel.rows, parcel.size, parcel.until] for parcel in self.parcels]
        told = asdict(self) | {"parcels": parcels}
        told["reached"] = dict(sorted(told.pop("newest").items()))  # its name in this format
        told = {name: value for name, value in told.items() if name not in _OF_ROUTING or value is not None}
        content = zlib.compress(json.dumps(told).encode(), 1)
        return b"".join([_MAGIC, FORMAT.to_bytes(2, "little"), zlib.crc32(content).to_bytes(4, "little"), content])

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Ledger:
        """What `to_bytes` wrote; `where` names the cell in an error."""
        if data[: len(_MAGIC)] != _MAGIC or len(data) < _HEAD:
            raise SparkError(f"{where}: the checkpoint's state is not Midstream's; start with a new checkpoint")
        written = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 2], "little")
        if written != FORMAT:
            raise SparkError(
                f"{where}: the checkpoint has format {written}, but this Midstream reads format {FORMAT}; "
                "go on with the Midstream that wrote it, or start with a new checkpoint"
            )
        content = data[_HEAD:]
        if zlib.crc32(content) != int.from_bytes(data[_HEAD - 4 : _HEAD], "little"):
            raise SparkError(f"{where}: damaged state; restore the checkpoint from a copy")
        told = json.loads(zlib.decompress(content))
        newest = told.pop("reached")
        told.setdefault("batches", _UNCOUNTED)
        return cls(**told | {"parcels": [Parcel(*values) for values in told["parcels"]], "newest": newest})

    # Parcels ---------------------------------------------------------------------------------------------------------

    @property
    def stored_bytes(self) -> int:
        return sum(parcel.size for parcel in self.parcels)

    def add(self, lane: int, rows: int, size: int, until: int | None) -> Parcel:
        """List a new parcel."""
        parcel = Parcel(self.next_sequence, lane, rows, size, until)
        self.next_sequence += 1
        self.parcels.append(parcel)
        return parcel

    def drop(self, parcels: Iterable[Parcel]) -> None:
        """Take parcels off the list."""
        gone = {parcel.sequence for parcel in parcels}
        self.parcels = [parcel for parcel in self.parcels if parcel.sequence not in gone]

    def expired(self, kept_from: int) -> list[Parcel]:
        """Parcels of which all rows have left their windows before a moment, in microseconds."""
        return [parcel for parcel in self.parcels if parcel.until is not None and parcel.until < kept_from]

    def to_merge(self) -> Iterator[list[Parcel]]:
        """Groups of small parcels of one lane that should become one parcel each."""
        groups: dict[tuple[int, int], list[Parcel]] = {}
        for parcel in self.parcels:
            if parcel.lane != SNAPSHOT_LANE and (tier := _tier(parcel.size)) < _TIERS:
                groups.setdefault((parcel.lane, tier), []).append(parcel)
        yield from (group for group in groups.values() if len(group) >= MERGED_AT_ONCE)


def _tier(size: int) -> int:
    """Which order of size a parcel has, from 0; `_TIERS` and more are large."""
    tier = 0
    while size >= _SMALLEST_TIER * MERGED_AT_ONCE**tier:
        tier += 1
    return tier
