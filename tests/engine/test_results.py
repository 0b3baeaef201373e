"""Results in pieces: bounded blocks, all results once, and fills that show up only in the states."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.cql.model import Query
from midstream.engine.joins import combos

from .audit import executor_of

SCHEMA = pa.schema({"k": pa.int64(), "id": pa.int64(), "ts": pa.int64()})


def query_of(size: int, where: str) -> Query:
    aliases = "abc"[:size]
    inputs = ", ".join(f"{alias} [RANGE 1 SECOND]" for alias in aliases)
    columns = ", ".join(f"{alias}.id AS {alias}" for alias in aliases)
    text = f"SELECT {columns} FROM {inputs} WHERE {where}"
    return ms.query(text, schemas=dict.fromkeys(aliases, SCHEMA), event_time="ts")


def rows(keys: list[int], time: int = 0, first: int = 0) -> pa.Table:
    ids = range(first, first + len(keys))
    return pa.table({"k": keys, "id": ids, "ts": [time] * len(keys)}, schema=SCHEMA)


@pytest.mark.parametrize("where", ["a.k = b.k", "a.k <= b.k", "a.k * b.k = 0"], ids=["hash", "band", "loop"])
def test_many_results_come_in_several_pieces(where: str) -> None:
    engine = ms.Engine(query_of(2, where))
    pieces = list(engine.push_batches({"a": rows([0] * 600), "b": rows([0] * 500)}))
    assert len(pieces) > 2
    assert all(0 < piece.num_rows <= combos.LARGEST_BLOCK for piece in pieces)
    whole = pa.concat_tables(pieces)
    pairs = np.asarray(whole.column("a")) * 1000 + np.asarray(whole.column("b"))
    assert whole.num_rows == 300_000 == len(np.unique(pairs)) == engine.stats().rows_out


def test_a_block_is_larger_than_any_piece_that_fits_it() -> None:
    assert combos.LARGEST_BLOCK == 131_072
    engine = ms.Engine(query_of(2, "a.k = b.k"))
    (piece,) = engine.push_batches({"a": rows([1, 2, 3]), "b": rows([3, 2])})
    assert piece.num_rows == 2


def test_checks_that_reject_nearly_everything_do_not_make_small_pieces() -> None:
    """A full block that is nearly empty after its checks is filled up before it is handed out."""
    engine = ms.Engine(query_of(2, "a.k = b.k AND (a.id + b.id) % 100 = 0"))
    pieces = list(engine.push_batches({"a": rows([0] * 1000), "b": rows([0] * 1000)}))
    assert sum(piece.num_rows for piece in pieces) == 10_000
    assert len(pieces) < 20


def test_a_fill_shows_only_in_the_state() -> None:
    """After a restore (a b) is a hole. A row of c that finds no partner fills what it touches, and emits nothing."""
    query = query_of(3, "a.k = b.k AND b.k = c.k AND a.id + c.id < 100")
    engine = ms.Engine(query, plan="((a b) c)")
    engine.push({"a": rows([1, 1, 2], first=1), "b": rows([1, 2, 2])}, watermark=0)
    engine = ms.Engine.restore(query, engine.snapshot())
    (state,) = [node.state for node in executor_of(engine).joins() if node.state is not None]
    assert len(state) == 0 and state.missing
    assert engine.push({"c": rows([1], first=1000)}, watermark=0).num_rows == 0
    assert len(state) == 2 and state.missing, "only the pairs with key 1"
    assert engine.push({"c": rows([1], first=1000)}, watermark=0).num_rows == 0
    assert len(state) == 2, "a second touch fills nothing again"
    assert engine.push({"c": rows([1], first=5)}, watermark=0).num_rows == 2
    assert engine.push({"a": rows([2], first=9)}, watermark=0).num_rows == 0
    assert len(state) == 4, "new pairs are stored while old ones are missing"
    assert engine.push({"c": rows([2, 3], first=6)}, watermark=0).num_rows == 4
    assert len(state) == 6 and not state.missing


@pytest.mark.parametrize("where", ["a.k = b.k AND b.k = c.k", "a.k = b.k AND b.k * c.k = 0"], ids=["hash", "theta"])
def test_results_of_one_push_in_several_pieces_with_a_hole(where: str) -> None:
    """A theta goes through the windows instead of filling the hole."""
    query = query_of(3, where)
    engine = ms.Engine(query, plan="((a b) c)")
    engine.push({"a": rows([0] * 60), "b": rows([0] * 60)})
    engine = ms.Engine.restore(query, engine.snapshot())
    pieces = list(engine.push_batches({"c": rows([0] * 60)}))
    assert len(pieces) > 1 and sum(piece.num_rows for piece in pieces) == 60**3
    whole = pa.concat_tables(pieces)
    codes = sum(np.asarray(whole.column(name)) * 60**at for at, name in enumerate("abc"))
    assert len(np.unique(codes)) == 60**3


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
@pytest.mark.parametrize(
    "where", ["a.id > b.id", "a.id < b.id", "a.k = b.k AND a.id > b.id", "a.k = b.k AND a.id < b.id"]
)
def test_a_value_is_not_beyond_itself_even_at_the_ends_of_int64(where: str, value: int) -> None:
    """A strict comparison is a band from 1 or up to -1; a bound held at an end of int64 would meet the value."""
    extreme = rows([0], first=value)
    assert ms.Engine(query_of(2, where)).push({"a": extreme, "b": extreme}).num_rows == 0
