"""Spark's stateful operator without Spark: attempts of a batch that get the same rows in other orders and cuts.

An attempt works on a copy of the state, and what it leaves is compared with what others leave. The state that the next
batch finds is a mix of them, as Spark's state store may make one.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from midstream.spark.checkpoint.ledger import Ledger
from midstream.spark.commands.messages import Command, make_command_packer
from midstream.spark.hosts import turn
from midstream.spark.hosts.cell import Cell
from midstream.spark.parcels import packing
from midstream.spark.parcels.encoding import from_wire
from midstream.spark.processor import JoinProcessor
from midstream.spark.routing.cell_numbers import cell_number, spark_hash
from midstream.spark.spec import JoinSpec

Tables = Mapping[str, pa.Table]


@dataclass
class State:
    """What the state store has of one cell."""

    parcels: dict[tuple[int, int], tuple[bytes]] = field(default_factory=dict)
    ledger: bytes | None = None
    timers: frozenset[int] = frozenset()

    def without_stamp(self) -> tuple[Any, ...]:
        """What all attempts write. Samples, and with them the ways of rows, go by when rows have come and entered."""
        if self.ledger is None:
            return self.parcels, None, self.timers
        ledger = replace(Ledger.from_bytes(self.ledger, "cell"), stamp="")
        if ledger.router is not None:
            ledger.plan, ledger.router = None, {name: ledger.router[name] for name in ("executor", "policy", "cell")}
        return self.parcels, ledger.to_bytes(), self.timers

    def remembered(self) -> Ledger:
        assert self.ledger is not None
        return Ledger.from_bytes(self.ledger, "cell")


class Handle:
    """What the operator uses of Spark's handle, over the state of one cell."""

    def __init__(self, state: State):
        self.parcels = dict(state.parcels)
        self.ledger = state.ledger
        self.timers = set(state.timers)

    def state(self) -> State:
        return State(self.parcels, self.ledger, frozenset(self.timers))

    def getMapState(self, *_: str) -> Any:
        return SimpleNamespace(
            getValue=self.parcels.get, updateValue=self.parcels.__setitem__, removeKey=self.parcels.pop
        )

    def getValueState(self, *_: str) -> Any:
        return SimpleNamespace(
            get=lambda: None if self.ledger is None else (self.ledger,),
            update=lambda value: setattr(self, "ledger", value[0]),
        )

    def registerTimer(self, moment: int) -> None:
        self.timers.add(moment)

    def deleteTimer(self, moment: int) -> None:
        self.timers.discard(moment)


@dataclass
class Engines:
    """Engines that attempts have left behind, by their stamps: the hosts of executors."""

    left: dict[str, Cell] = field(default_factory=dict)

    def take(self, chosen: turn.Turn) -> turn.TurnResult:
        cell = self.left.pop(chosen.stamp, None)
        place = "host" if cell is not None else "loaded"
        if cell is None:
            cell = Cell(chosen.spec)
            cell.load(chosen.stored(), chosen.stamp)
        stamp = f"{random.getrandbits(64):x}"
        outcome = cell.push(chosen.stamp, stamp, chosen.watermark, chosen.parcels, chosen.commands)
        chosen.meanwhile()
        self.left[stamp] = cell
        return turn.TurnResult(outcome, stamp, place, 0)


def pack(spec: JoinSpec, source: str, table: pa.Table, rng: random.Random) -> Iterator[Any]:
    """The rows of a source as parcels, cut and ordered at random, as the operator gets them."""
    order = rng.sample(range(table.num_rows), table.num_rows) if rng.random() < 0.5 else range(table.num_rows)
    shuffled = table.take(pa.array(order, pa.int64()))
    cuts = sorted({0, table.num_rows, *(rng.randrange(table.num_rows + 1) for _ in range(rng.randrange(4)))})
    # A stream without rows has a task, too, which calls all cells.
    pieces = [shuffled.slice(begin, end - begin) for begin, end in itertools.pairwise(cuts)] or [shuffled]
    names = table.column_names
    for piece in rng.sample(pieces, len(pieces)):
        for batch in packing.make_packer(spec, source, names)(iter(piece.to_batches())):
            yield from _rows(batch)


def _rows(batch: pa.RecordBatch) -> Iterator[Any]:
    return (SimpleNamespace(**row) for row in batch.to_pylist())


@dataclass
class Attempt:
    """What a try at a batch leaves: a state for each cell, and results, as rows and as the operator gives them out."""

    states: dict[int, State]
    results: Counter[tuple[Any, ...]]
    output: list[tuple[int, bytes]] = field(default_factory=list)


class Batches:
    """Runs batch after batch, each several times, and goes on from a mix of what the attempts have left."""

    def __init__(self, spec: JoinSpec, seed: int, tables: Tables | None = None, attempts: int = 2):
        self._spec = spec
        self._rng = random.Random(seed)
        self._tables = tables or {}
        self._attempts = attempts
        self._engines = Engines()
        self._states = {cell: State() for cell in range(spec.cells)}
        self._is_first = True
        self.output: list[tuple[int, bytes]] = []

    def ledgers(self) -> list[Ledger]:
        """What each cell remembers."""
        return [state.remembered() for state in self._states.values()]

    def restart(self, spec: JoinSpec) -> None:
        """Go on from the state with another spec; no engine is left."""
        self._spec = spec
        self._engines.left.clear()

    def run(
        self, data: Tables, watermark: int, take: Any, commands: tuple[Command, ...] = ()
    ) -> Counter[tuple[Any, ...]]:
        """The results of a batch; all attempts have written the same. `watermark` is in milliseconds."""
        take.side_effect = self._engines.take
        tried = [self._attempt(data, watermark, commands) for _ in range(self._attempts)]
        for other in tried[1:]:
            assert other.results == tried[0].results
            for cell, state in other.states.items():
                assert state.without_stamp() == tried[0].states[cell].without_stamp()
        self._states = {cell: self._mixed([attempt.states[cell] for attempt in tried]) for cell in self._states}
        self._is_first = False
        self.output = self._rng.choice(tried).output
        return tried[0].results

    def _mixed(self, states: list[State]) -> State:
        """A state that has every value from one or another attempt."""
        parcels = {key: self._rng.choice(states).parcels[key] for key in states[0].parcels}
        return State(parcels, self._rng.choice(states).ledger, self._rng.choice(states).timers)

    def _attempt(self, data: Tables, watermark: int, commands: tuple[Command, ...]) -> Attempt:
        rows = [row for source, table in data.items() for row in pack(self._spec, source, table, self._rng)]
        for command in self._rng.sample(commands, len(commands)):
            texts = pa.RecordBatch.from_pydict({"value": [command.to_json()]})
            rows += [row for batch in make_command_packer(self._spec.cells)(iter([texts])) for row in _rows(batch)]
        self._rng.shuffle(rows)
        by_cell: dict[int, list[Any]] = {}
        for row in rows:
            by_cell.setdefault(spark_hash(row.cell), []).append(row)
        attempt = Attempt({}, Counter())
        for cell, state in self._states.items():
            handle = Handle(state)
            timers = SimpleNamespace(getCurrentWatermarkInMs=lambda: watermark)
            self._fill(handle, cell)
            processor = _processor(self._spec, handle)
            if cell in by_cell:
                self._collect(attempt, processor.handleInputRows((cell_number(cell),), iter(by_cell[cell]), timers))
            for moment in sorted(timer for timer in handle.timers if timer <= watermark):
                fired = SimpleNamespace(getExpiryTimeInMs=lambda moment=moment: moment)
                found = processor.handleExpiredTimer((cell_number(cell),), timers, fired)
                self._collect(attempt, found)
                handle.timers.discard(moment)
            attempt.states[cell] = handle.state()
        return attempt

    def _fill(self, handle: Handle, cell: int) -> None:
        if not self._is_first:
            return
        rows = [row for source, table in self._tables.items() for row in pack(self._spec, source, table, self._rng)]
        processor = _processor(self._spec, handle)
        for row in self._rng.sample(rows, len(rows)):
            if spark_hash(row.cell) == cell:
                processor.handleInitialState((row.cell,), row, None)

    def _collect(self, attempt: Attempt, found: Iterator[Any]) -> None:
        for row in found:
            if row.parcel is not None:
                attempt.results.update(map(tuple, _values(from_wire(row.parcel))))
                attempt.output.append((row.cell, row.parcel))


def _values(table: pa.Table) -> Iterator[Iterator[str]]:
    """Rows as texts. Times are integers: parts of a static table begin before all that Python has."""
    names = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    fields = [pa.field(field.name, pa.int64() if field.name in names else field.type) for field in table.schema]
    return (map(repr, row.values()) for row in table.cast(pa.schema(fields)).to_pylist())


def count_rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Rows of a table, each as often as it is there."""
    return Counter(map(tuple, _values(table)))


def _processor(spec: JoinSpec, handle: Handle) -> JoinProcessor:
    processor = JoinProcessor(spec)
    processor.init(handle)  # type: ignore[arg-type]
    return processor
