"""One migration, from beginning to end. Start reading here."""

from __future__ import annotations

import pyarrow as pa

import midstream as ms

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.int64()})


def test_a_plan_changes_between_two_rows_of_one_result() -> None:
    query = ms.query(
        "SELECT r.k FROM r [RANGE 1 MINUTE], s [RANGE 1 MINUTE], t [RANGE 1 MINUTE] WHERE r.k = s.k AND s.k = t.k",
        schemas={"r": SCHEMA, "s": SCHEMA, "t": SCHEMA},
        event_time="ts",
    )
    engine = ms.Engine(query, plan="((r t) s)")
    for stream in ("r", "s"):
        assert engine.push({stream: pa.table({"k": [7], "ts": [1]})}).num_rows == 0

    phases: list[str] = []
    engine.migrate("((r s) t)", strategy="jisc", on_event=lambda migration: phases.append(migration.phase))
    assert engine.migration is not None
    assert (str(engine.plan), engine.migration.holes_left) == ("((r s) t)", 1)  # the state (r s) misses its one pair

    out = engine.push({"t": pa.table({"k": [7], "ts": [2]})})  # looks for that pair, so it is filled first
    assert out.to_pylist() == [{"k": 7, "valid_from": 2, "valid_to": 60_000_001}]
    assert phases == ["begun", "running", "done"]
    assert engine.migration.percent == 100
