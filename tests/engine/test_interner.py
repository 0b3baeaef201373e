"""Rows of values and their ids: equal rows share one, others never do."""

from __future__ import annotations

import decimal
import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from midstream.engine.operators import interner as interning
from midstream.engine.operators.interner import Interner

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, 0, 127],
    pa.int64(): [-(2**63), 0, 1, 2**63 - 1],
    pa.uint64(): [0, 2**63, 2**64 - 1],
    pa.float32(): [0.0, -0.0, math.nan, -math.inf, 1.5],
    pa.float64(): [0.0, -0.0, math.nan, -math.nan, math.inf, 1e-310],
    pa.bool_(): [False, True],
    pa.string(): ["", "a", "ab", "a\0", "long " * 20],
    pa.large_binary(): [b"", b"\0", b"\0\0"],
    pa.binary(2): [b"ab", b"\0\0"],
    pa.decimal128(38, 2): [decimal.Decimal("0.01"), decimal.Decimal("-0.01"), decimal.Decimal(10) ** 35],
    pa.decimal128(5, -2): [decimal.Decimal(100), decimal.Decimal(-300)],
    pa.decimal32(5, 2): [decimal.Decimal("0.01"), decimal.Decimal("-0.01")],
    pa.decimal256(60, 0): [decimal.Decimal(0), decimal.Decimal(10) ** 50],
    pa.date32(): [-1, 0, 1],
    pa.timestamp("us", "UTC"): [-1, 0, 1],
    pa.null(): [None],
}


def comparable(value: Any) -> Any:
    """What is equal for values that count as equal."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


@pytest.mark.parametrize("seed", range(30))
def test_equal_rows_share_an_id_and_others_do_not(seed: int) -> None:
    rng = random.Random(seed)
    types = [rng.choice(list(VALUES)) for _ in range(rng.choice([0, 1, 1, 2, 3, 70]))]
    interner = Interner(types)
    known: dict[int, tuple[Any, ...]] = {}
    for _ in range(6):
        length = rng.choice([0, 1, 50, 300])
        arrays = [pa.array([rng.choice([None, *VALUES[type]]) for _ in range(length)], type) for type in types]
        ids = interner.intern(arrays, length)
        columns = [array.to_pylist() for array in arrays]
        rows = list(zip(*columns, strict=True)) if columns else [()] * length
        for number, row in zip(ids.tolist(), rows, strict=True):
            values = tuple(map(comparable, row))
            assert known.setdefault(number, values) == values
        assert len(set(known.values())) == len(known) == len(interner)
        assert sorted(known) == list(range(len(known)))
        taken = [interner.take(place, np.arange(len(interner))).to_pylist() for place in range(len(types))]
        for number, values in known.items():
            stored = [column[number] for column in taken]
            assert [comparable(value) for value in stored] == list(values)
            assert not any(isinstance(value, float) and str(value) == "-0.0" for value in stored)
        if rng.random() < 0.5:
            kept = sorted(rng.sample(sorted(known), rng.randint(0, len(known))))
            interner.keep(np.array(kept, np.int64))
            known = {new: known[old] for new, old in enumerate(kept)}
    assert interner.nbytes > 0


def test_values_with_the_same_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "codes_of", lambda values: np.zeros(len(values), np.int64))
    interner = Interner([pa.string(), pa.int64()])
    texts, numbers = ["a", "b", None, "a", "c", "b"], [1] * 6
    ids = interner.intern([pa.array(texts), pa.array(numbers)], 6).tolist()
    assert ids[0] == ids[3] and ids[1] == ids[5] and len(set(ids)) == 4
    again = interner.intern([pa.array(["c", "d", "a"]), pa.array([1, 1, 1])], 3).tolist()
    assert again[0] == ids[4] and again[2] == ids[0] and len(interner) == 5


def test_a_twin_is_found_again_when_the_other_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "codes_of", lambda values: np.zeros(len(values), np.int64))
    interner = Interner([pa.string()])
    a, b, c, _ = interner.intern([pa.array(["a", "b", "c", None])], 4).tolist()
    interner.keep(np.array([b, c]))
    assert interner.intern([pa.array(["c", "b", "a"])], 3).tolist() == [1, 0, 2]
    assert len(interner) == 3 and a == 0
