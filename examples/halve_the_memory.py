"""Halve the memory of a running engine: what its joins keep shrinks, and the results stay the same."""

import numpy as np
import pyarrow as pa

import midstream as ms

schema = pa.schema({"id": pa.int64(), "ts": pa.int64()})
inputs = ", ".join(f"{name} [RANGE 20 MILLISECONDS]" for name in "abc")
text = f"SELECT a.id FROM {inputs} WHERE a.id = b.id AND b.id = c.id"
query = ms.query(text, schemas=dict.fromkeys("abc", schema), event_time="ts")
rng = np.random.default_rng(7)
engine, free = ms.Engine(query), ms.Engine(query)
for number in range(60):
    times = np.arange(1_000 * number, 1_000 * (number + 1))
    batch = {name: pa.table([rng.integers(0, 2_000, 1_000), times], schema=schema) for name in "abc"}
    out, wanted = engine.push(batch), free.push(batch)
    columns = [(column, "ascending") for column in out.column_names]
    assert out.sort_by(columns).equals(wanted.sort_by(columns))
    if number == 39:
        held = engine.stats().state_bytes
        engine.memory_limit = held // 2
        print(f"{held / 1e6:.1f} MB, and from now on at most {engine.memory_limit / 1e6:.1f} MB")
    assert engine.memory_limit is None or engine.stats().state_bytes <= engine.memory_limit
stats = engine.stats()
memory = stats.memory
print(f"{stats.state_bytes / 1e6:.1f} MB after {number + 1} batches; {stats.rows_out:,} results, none lost")
print(f"entries given up: {memory.evicted:,}, computed again: {memory.refilled:,}, states off: {memory.states_off}")
