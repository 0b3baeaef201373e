"""What samples count: partners by key alone, where nothing else is to be tested, as by joining."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.joins.checks import Checks
from midstream.engine.routing import sampling

KEYS = {
    "one key": "r.a = s.a AND s.a = t.a",
    "texts": "r.c = s.c AND s.c = t.c",
    "a key of two": "r.a = s.a AND r.b = s.b AND s.a = t.a",
    "a band beside a key": "r.a = s.a AND abs(r.b - s.b) <= 1 AND s.a = t.a",
}
SCHEMA = pa.schema({"a": pa.int64(), "b": pa.int64(), "c": pa.string(), "ts": pa.int64()})


def count_partners(where: str) -> Any:
    """What an engine has counted in the end."""
    inputs = ", ".join(f"{name} [RANGE 3 MILLISECONDS]" for name in "rst")
    query = ms.query(f"SELECT r.ts AS x FROM {inputs} WHERE {where}", dict.fromkeys("rst", SCHEMA), "ts")
    engine = ms.Engine(query, executor="stems", seed=3)
    rng = np.random.default_rng(7)
    for number in range(6):
        push = {}
        for name in "rst":
            a, b = rng.integers(0, 9, (2, 300))
            times = np.sort(rng.integers(0, 1_000, 300)) + 1_000 * number
            push[name] = pa.table({"a": a, "b": b, "c": [f"key {key}" for key in a], "ts": times}, schema=SCHEMA)
        engine.push(push)
    record = engine.routing_record
    assert record is not None and record.rates is not None
    return record.rates["counts"]


@pytest.mark.parametrize("where", KEYS.values(), ids=KEYS)
def test_counting_by_key_gives_what_joining_gives(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both probe all rows of a sample here: joining may stop only after a piece of it, counting after each row."""
    monkeypatch.setattr(sampling, "_ENOUGH", sampling._TRIED)
    counted = count_partners(where)
    monkeypatch.setattr(Checks, "only_confirm_keys", False)
    assert counted == count_partners(where) and any(found for _, _, _, found, *_ in counted)


def test_a_sample_ends_when_it_has_found_enough() -> None:
    """Every row has a partner in each of 600 rows: some rows tell as much as all 400 would."""
    query = ms.query(
        "SELECT r.ts AS x FROM r [UNBOUNDED], s [UNBOUNDED] WHERE r.a = s.a AND r.b = s.b",
        dict.fromkeys("rs", SCHEMA),
        "ts",
    )
    engine = ms.Engine(query, executor="stems")
    for number, size in enumerate((600, 400)):
        times = number * 1_000 + np.arange(size)
        columns = {"a": np.zeros(size, np.int64), "b": np.zeros(size, np.int64), "c": ["key"] * size, "ts": times}
        engine.push({"rs"[1 - number]: pa.table(columns, schema=SCHEMA)})
    record = engine.routing_record
    assert record is not None and record.rates is not None
    (counted,) = [counted for counted in record.rates["counts"] if counted[:2] == [0, 1]]
    _, _, sampled, found, settled, window = counted
    assert (sampled, found, settled, window) == (1, 600, 600, 600)
