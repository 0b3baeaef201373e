"""The description of a join on Spark: the same for every worker and host, and after a restart with the same code.

Hosts get it as JSON over their socket.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from midstream.cql.model import Query
from midstream.cql.parse import read_query
from midstream.engine.executors.registry import find_executor
from midstream.engine.operators.parts import rounds_of
from midstream.engine.operators.rounds import Round
from midstream.engine.operators.stepped import start_of_step
from midstream.engine.snapshot.checkpoint import describe_query, windows_as_json
from midstream.engine.snapshot.format import in_one_order
from midstream.options import EngineOptions
from midstream.spark.routing.rules import Routing, routing_for

#: The name of the step in what a checkpoint tells of its query.
STEP = "step"


@dataclass(frozen=True)
class JoinSpec:
    """A join on Spark: the query's text with the schemas of its streams, how it is cut into cells, and its plan.

    `options` are what each cell's engine is told. `schedule` lists moments of event time, in microseconds, and the
    plans that cells change to when the watermark has reached them. `operator` tells two joins of one streaming query
    apart. `delays` are how long the watermark waits for rows of a stream, in microseconds. `assume_zone` is the zone of
    event times without one. `aggregated` are the streams that come out of an aggregation: their rows wait for the
    watermark, so they lag behind their sources. `step` is how much event time results cover that go out together, as
    text. With `is_bounded` the rows of one batch are all there are, as those of batch DataFrames. `stored_step` is the
    step of the checkpoint, in microseconds, where it differs from the one that follows from the windows: see
    `going_on_in`.
    """

    text: str
    schemas: Mapping[str, pa.Schema]
    event_time: str | Mapping[str, str]
    cells: int
    rates: Mapping[str, float] = field(default_factory=dict)
    hot_keys: Mapping[str, list[Any]] = field(default_factory=dict)
    plan: str | None = None
    options: EngineOptions = field(default_factory=EngineOptions)
    schedule: tuple[tuple[int, str], ...] = ()
    allow_incomplete: bool = False
    host_idle: float = 900.0
    operator: str = ""
    delays: Mapping[str, int] = field(default_factory=dict)
    assume_zone: str | None = None
    aggregated: tuple[str, ...] = ()
    step: str | None = None
    is_bounded: bool = False
    stored_step: int | None = None

    @cached_property
    def query(self) -> Query:
        """The query as the user wrote it."""
        found = read_query(self.text, self.schemas, self.event_time, assume_zone=self.assume_zone, step=self.step)
        return found if self.stored_step is None else found.with_step(self.stored_step)

    def going_on_in(self, step: int | None) -> JoinSpec:
        """The same join in the steps of a checkpoint: rows were kept as long as these need them."""
        return self if step is None or step == self.query.step else replace(self, stored_step=step)

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """What makes results of what the cells give out; nothing if a cell's results are complete."""
        return () if self.query.step is None else rounds_of(self.query)

    def kept_from(self, watermark: int) -> int:
        """The moment before which nothing matters any more: the watermark, or the start of the oldest open step."""
        return watermark if self.query.step is None else start_of_step(watermark, self.query.step)

    @cached_property
    def routing(self) -> Routing:
        """Which rows go to which cells."""
        return routing_for(self.query, self.cells, self.rates, self.hot_keys)

    @property
    def executor(self) -> str:
        """The name of the executor that cells run; only names travel to them."""
        assert isinstance(self.options.executor, str)
        return self.options.executor

    @property
    def policy(self) -> str | None:
        """The name of the routing policy in the code, or None if it names none."""
        assert self.options.routing is None or isinstance(self.options.routing, str)
        return self.options.routing

    @property
    def needs_snapshots(self) -> bool:
        """Whether an engine cannot be rebuilt from its rows alone: ROWS windows count arrivals."""
        return self.query.tracks_arrivals

    def explain(self, memory_limit: int | None = None) -> str:
        """Where rows go, and how cells run the plan. `memory_limit` is that of each cell, in bytes."""
        default = find_executor(self.executor, "explain").default_routing
        way = "as the plan says" if default is None else f"routing: {self.policy or default}"
        how = f"executor: {self.executor}, {way}, demand: {self.options.demand}"
        return f"{self.routing.explain(memory_limit)}\n\n{how}"

    @cached_property
    def described(self) -> dict[str, Any]:
        """The parts of the query that must not change during the life of a checkpoint, as JSON values."""
        told = describe_query(self.query)
        if self.query.step is not None:
            told[STEP] = self.query.step
        described: dict[str, Any] = json.loads(json.dumps(told))
        return described

    @cached_property
    def windows(self) -> list[list[Any]]:
        """The windows of the inputs, to compare with those of a checkpoint."""
        return windows_as_json(self.query)

    @cached_property
    def columns(self) -> dict[str, dict[str, str]]:
        """The columns of each lane that cells keep, with their types."""
        schemas = self.routing.cell_query.schemas
        return {name: {field.name: str(field.type) for field in schema} for name, schema in schemas.items()}

    @cached_property
    def lasting(self) -> str:
        """What may not change while a checkpoint lives, as text."""
        told = in_one_order(self.described)
        if not self.query.step_is_given:  # that of the checkpoint goes on
            told.pop(STEP, None)
        return json.dumps([self.routing.fingerprint(), told], sort_keys=True, default=str)

    @cached_property
    def fingerprint(self) -> str:
        """Equal for two joins if one can go on from the other's checkpoint."""
        told = [self.routing.fingerprint(), self.described, self.windows, self.columns]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()

    @cached_property
    def identity(self) -> str:
        """Equal for equal joins."""
        return self.to_json()

    def to_json(self) -> str:
        """All that a cell has to know. Hot keys too: what is spread and what is copied does not share a lane."""
        told = {
            "text": self.text,
            "schemas": {name: _schema_text(schema) for name, schema in self.schemas.items()},
            "event_time": self.event_time if isinstance(self.event_time, str) else dict(self.event_time),
            "cells": self.cells,
            "rates": dict(self.rates),
            "hot_keys": {name: _values_text(values) for name, values in self.hot_keys.items()},
            "plan": self.plan,
            "options": self.options.keywords(),
            "schedule": [list(step) for step in self.schedule],
            "allow_incomplete": self.allow_incomplete,
            "host_idle": self.host_idle,
            "operator": self.operator,
            "delays": dict(self.delays),
            "assume_zone": self.assume_zone,
            "aggregated": list(self.aggregated),
            "step": self.step,
            "is_bounded": self.is_bounded,
            "stored_step": self.stored_step,
        }
        return json.dumps(told, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> JoinSpec:
        """What `to_json` told."""
        told = json.loads(text)
        schemas = {name: _schema(schema) for name, schema in told.pop("schemas").items()}
        schedule = tuple((moment, plan) for moment, plan in told.pop("schedule"))
        aggregated = tuple(told.pop("aggregated"))
        hot_keys = {name: _values(values) for name, values in told.pop("hot_keys").items()}
        options = EngineOptions.of(told.pop("options"))
        return cls(
            schemas=schemas, schedule=schedule, hot_keys=hot_keys, aggregated=aggregated, options=options, **told
        )


def _schema_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def _values_text(values: Sequence[Any]) -> str:
    """Values of any types, each as a column of one row."""
    row = pa.RecordBatch.from_arrays([_column(value) for value in values], [str(place) for place in range(len(values))])
    return base64.b64encode(row.schema.serialize().to_pybytes() + row.serialize().to_pybytes()).decode()


def _column(value: Any) -> pa.Array:
    try:
        return pa.array([value])
    except OverflowError:  # an integer that only a decimal holds
        return pa.array([Decimal(value)])


def _values(text: str) -> list[Any]:
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        return [column[0].as_py() for column in reader.read_all().columns]
