"""Whatever is given to whichever keyword: an error of ours when it is given, or an engine that works."""

from __future__ import annotations

import datetime
import decimal
import inspect
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import midstream as ms
from midstream.plan import Join, Leaf, parse_plan

from .pairs import SCHEMA, TEXT, rows


class Unfriendly:
    """Fails whenever it is asked for anything."""

    def __repr__(self) -> str:
        raise ValueError("no text")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")

    __hash__ = None  # type: ignore[assignment]


def make_query() -> ms.Query:
    return ms.query(TEXT, schemas={"a": SCHEMA, "b": SCHEMA}, event_time="ts")


def make_fed_engine() -> ms.Engine:
    engine = ms.Engine(make_query(), plan="a b", late="keep")
    engine.push({"a": rows([1], [5])})
    return engine


QUERY, SNAPSHOT = make_query(), make_fed_engine().snapshot()
VALUES: dict[str, Any] = {
    "none": None, "zero": 0, "one": 1, "minus five": -5, "sixty": 60, "huge": 10**5000, "beyond": 2**63, "real": 1.5,
    "nan": math.nan, "infinity": math.inf, "complex": 1j, "decimal": decimal.Decimal("1.5"), "true": True,
    "false": False, "empty": "", "text": "soon", "negative": "-1 second", "duration": "1 second", "a": "a", "b": "b",
    "plan text": "b a", "jisc": "jisc", "track": "parallel-track", "bytes": b"bytes", "array": bytearray(b"x"),
    "list": [], "numbers": [1, 2], "texts": ["a", "b"], "tuple": (1, "a"), "dict": {}, "names": {"a": "b"},
    "amounts": {"a": 5, "b": -5}, "odd names": {1: 2, None: 3}, "set": {1}, "object": object(), "class": str,
    "function": lambda *given: None, "numpy": np.array([1, 2]), "numpy int": np.int64(3), "numpy bool": np.bool_(True),
    "numpy text": np.str_("keep"), "date": datetime.date(2026, 1, 1), "moment": datetime.datetime(2026, 1, 1),
    "first": datetime.datetime.min, "zoned": datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
    "long": datetime.timedelta.max, "back": datetime.timedelta(-1), "not a time": pd.NaT,
    "stamp": pd.Timestamp("2026-01-01"), "frame": pd.DataFrame({"k": [1]}), "table": rows([1], [900]),
    "tables": {"a": rows([1], [901])}, "nulls": {"a": None, "b": None}, "schema": SCHEMA, "column": pa.array([1]),
    "schemas": {"a": SCHEMA}, "query": QUERY, "plan": ms.Plan(("a", "b"), Join(Leaf(1), Leaf(0))),
    "other plan": ms.Plan(("x", "y", "z"), Join(Join(Leaf(1), Leaf(0)), Leaf(2))), "leaf": Leaf(0),
    "snapshot": SNAPSHOT, "unfriendly": Unfriendly(),
}  # fmt: skip

CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "query": (ms.query, {"text": TEXT, "schemas": {"a": SCHEMA, "b": SCHEMA}, "event_time": "ts"}),
    "Engine": (ms.Engine, {"query": QUERY}),
    "restore": (ms.Engine.restore, {"query": QUERY, "snapshot": SNAPSHOT}),
    "resume": (ms.Engine.resume, {"query": QUERY, "rows": {"a": rows([1], [5])}, "watermark": 5}),
    "from_bytes": (ms.Snapshot.from_bytes, {"given": SNAPSHOT.to_bytes()}),
    "Plan": (ms.Plan, {"aliases": ("a", "b"), "root": Join(Leaf(0), Leaf(1))}),
    "Join": (Join, {"left": Leaf(0), "right": Leaf(1)}),
    "Leaf": (Leaf, {"input": 0}),
    "parse_plan": (parse_plan, {"text": "a b", "aliases": ("a", "b")}),
    "push": (lambda engine, **given: engine.push(**given), {"data": {"b": rows([1], [6])}, "watermark": None}),
    "push_batches": (lambda engine, **given: list(engine.push_batches(**given)), {"data": {}, "watermark": None}),
    "run": (lambda engine, **given: list(engine.run(**given)), {"batches": []}),
    "migrate": (
        lambda engine, **given: engine.migrate(**given),
        {"plan": "(b a)", "strategy": None, "budget": None, "hold": False, "on_event": None},
    ),
}


def keywords(call: str) -> list[str]:
    function, given = CALLS[call]
    names = inspect.signature(function).parameters
    return list(given) if "engine" in names else [name for name in names if name not in ("cls", "self")]


PLACES = [(call, keyword) for call in CALLS for keyword in keywords(call)]


def works(engine: ms.Engine) -> None:
    """A pair at a later time joins."""
    reached = max(engine.stats().watermark or 0, 10**17)
    engine.push({"a": rows([7], [reached + 5]), "b": rows([8], [reached + 5])})
    if not engine.stats().rejected["a"]:
        assert engine.push({"b": rows([7], [reached + 5])}).num_rows == 1


@pytest.mark.parametrize(("call", "keyword"), [pytest.param(*place, id=".".join(place)) for place in PLACES])
def test_any_value_for_any_keyword(call: str, keyword: str) -> None:
    function, usual = CALLS[call]
    needs_engine = "engine" in inspect.signature(function).parameters
    for name, value in VALUES.items():
        bound = {"engine": make_fed_engine()} if needs_engine else {}
        try:
            result = function(**bound, **{**usual, keyword: value})
        except ms.MidstreamError as error:
            told = str(error)
            assert told and len(told) < 1_000, name
        else:
            if isinstance(result, ms.Engine):
                works(result)
        for engine in bound.values():
            works(engine)


@pytest.mark.parametrize("seed", range(10))
def test_several_odd_values_at_once(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(30):
        call = dice.choice(["query", "Engine", "restore", "resume"])
        function, usual = CALLS[call]
        odd = {name: dice.choice(list(VALUES.values())) for name in dice.sample(keywords(call), 2)}
        try:
            result = function(**{**usual, **odd})
        except ms.MidstreamError:
            continue
        if isinstance(result, ms.Engine):
            works(result)


MESSAGES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a real budget": ("migrate", {"budget": 1.5}, "migrate: budget=1.5; give a whole number of holes"),
    "a budget that is no number": ("migrate", {"budget": math.nan}, "migrate: budget=nan"),
    "a negative budget": ("migrate", {"budget": "-1 second"}, "migrate: budget: '-1 second' is negative"),
    "a list of budgets": ("migrate", {"budget": [1]}, r"migrate: budget=\[1\]"),
    "a plan to change to": ("migrate", {"plan": None}, "migrate: plan is None; write the plan to change to"),
    "no limit": ("Engine", {"late_limit": None}, "engine: late_limit=None; give how many rows to keep"),
    "a jump without unit": ("Engine", {"max_jump": -5}, "engine: max_jump: -5 has no unit"),
    "a plan that is a number": ("Engine", {"plan": 5}, r"plan: got 5; write text such as '\(a b\)'"),
    "a text instead of a query": ("Engine", {"query": "SELECT 1"}, "engine: got str, not a query; make one with"),
    "a wrong word": ("Engine", {"late": "kep"}, "engine: late='kep' is not available; did you mean 'keep'"),
    "nothing to restore": ("restore", {"snapshot": None}, "snapshot: got None; give a Snapshot, or what its to_bytes"),
    "a number to restore": ("restore", {"snapshot": 7}, "snapshot: got int; give a Snapshot"),
    "tables that are a number": ("Engine", {"tables": 5}, "tables: got int; give a dict"),
    "a wrong event time": ("query", {"event_time": 5}, "query: event_time is int; give a column's name"),
    "no moment": ("resume", {"watermark": None}, "resume: watermark None is not a moment"),
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_what_an_error_says(name: str) -> None:
    call, given, message = MESSAGES[name]
    function, usual = CALLS[call]
    bound = {"engine": make_fed_engine()} if "engine" in inspect.signature(function).parameters else {}
    with pytest.raises(ms.MidstreamError, match=message):
        function(**bound, **{**usual, **given})


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, pa.py_buffer, np.frombuffer])
def test_a_snapshot_comes_in_anything_that_holds_bytes(form: Callable[..., Any]) -> None:
    stored = SNAPSHOT.to_bytes()
    given = np.frombuffer(stored, np.uint8) if form is np.frombuffer else form(stored)
    engine = ms.Engine.restore(QUERY, given)
    assert engine.push({"b": rows([1], [6])}).num_rows == 1
