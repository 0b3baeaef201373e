"""What benchmarks run: a shape of join with its rows, its left-deep plan, and the bare limits for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import midstream as ms
from midstream.cql.model import Column
from midstream.lab import generate
from midstream.lab.bench.answer import Answer, compute_answer
from midstream.lab.bench.bare import BareJoin, BareLoop
from midstream.lab.bench.bare_stems import BareStems
from midstream.lab.workload import Workload
from midstream.state import rings

_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Scenario:
    """A workload, and how its streams join in the order of FROM. All have one window, in microseconds."""

    name: str
    workload: Workload
    joins: tuple[BareJoin, ...]
    window: int
    #: For how many entries of a join state the bare limit reserves room.
    entries: int

    @cached_property
    def query(self) -> ms.Query:
        return ms.query(self.workload.text, self.workload.schemas, self.workload.event_time)

    @cached_property
    def plan(self) -> str:
        first, *others = self.workload.streams
        text = first
        for stream in others:
            text = f"({text} {stream})"
        return text

    def answer(self) -> Answer:
        """What DuckDB finds."""
        outputs = {
            output.name: f"{self.query.aliases[output.expr.input]}.{output.expr.name}"
            for output in self.query.outputs
            if isinstance(output.expr, Column)
        }
        where = self.workload.text.split("WHERE ", 1)[1]
        return compute_answer(self.workload, outputs, [where], self.window)

    def start_bare_tree(self, batch: int) -> BareLoop:
        """The bare limit of a tree of joins, in batches of so many rows a stream."""
        return BareLoop(self.workload, self.joins, self.window, batch, self.entries)

    def start_bare_stems(self, batch: int) -> BareStems:
        """The bare limit of SteMs, in batches of so many rows a stream."""
        return BareStems(self.workload, self.joins, self.window, batch)


def one_key(streams: int, rows: int, keys: int, rate: float, window: float, string_keys: bool = False) -> Scenario:
    """All streams equal on one key; `window` is in seconds."""
    workload = generate.common_key(streams, rows, keys, rate, string_keys=string_keys, window=window)
    joins = [BareJoin(((0, "k", "k"),)) for _ in range(streams - 1)]
    return _make(f"one {'string ' if string_keys else ''}key", workload, joins, window, keys)


def chain(streams: int, rows: int, keys: int, rate: float, window: float) -> Scenario:
    """Each stream equal to the next one."""
    workload = generate.chain(streams, rows, keys, rate, window=window)
    names = workload.streams
    joins = [BareJoin(((at, f"to_{names[at + 1]}", f"to_{names[at]}"),)) for at in range(streams - 1)]
    return _make("chain", workload, joins, window, keys)


def star(streams: int, rows: int, keys: int, rate: float, window: float) -> Scenario:
    """The first stream equal to each of the others."""
    workload = generate.star(streams, rows, keys, rate, window=window)
    names = workload.streams
    joins = [BareJoin(((0, f"to_{names[at]}", f"to_{names[0]}"),)) for at in range(1, streams)]
    return _make("star", workload, joins, window, keys)


def clique(streams: int, rows: int, keys: int, rate: float, window: float) -> Scenario:
    """Every pair of streams equal."""
    workload = generate.clique(streams, rows, keys, rate, window=window)
    names = workload.streams
    joins = [
        BareJoin(tuple((earlier, f"to_{names[at]}", f"to_{names[earlier]}") for earlier in range(at)))
        for at in range(1, streams)
    ]
    return _make("clique", workload, joins, window, 1 << 20)


def band(streams: int, rows: int, keys: int, rate: float, window: float, width: int) -> Scenario:
    """Each stream within `width` of the next one."""
    workload = generate.band(streams, rows, keys, rate, width=width, window=window)
    joins = [BareJoin(((at, "x", "x"),), width) for at in range(streams - 1)]
    return _make("band", workload, joins, window, 1 << 19)


def _make(shape: str, workload: Workload, joins: list[BareJoin], window: float, entries: int) -> Scenario:
    name = f"{len(workload.streams)}-way, {shape}"
    return Scenario(name, workload, tuple(joins), round(window * _MICROSECONDS), rings.capacity_for(entries))
