"""Makes an engine, as a user does, and then has it do everything: ``python -m tests.engine.everything``.

Prints, as JSON, the kernels that the warm-up did not call, and those that were compiled after it. It needs a process of
its own: tests of kernels call them with arrays of all sorts.
"""

from __future__ import annotations

import json
import logging

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.engine.compiling import all_kernels

SCHEMA = pa.schema({"k": pa.int64(), "s": pa.string(), "ts": pa.int64()})
SEEDS = range(10_000, 10_008)


def query(window: str) -> ms.Query:
    inputs = ", ".join(f"{name} {window}" for name in "abcd")
    return ms.query(
        f"SELECT a.s, b.ts AS b_ts FROM {inputs} WHERE a.k = b.k AND b.k = c.k AND c.s = d.s",
        schemas=dict.fromkeys("abcd", SCHEMA),
        event_time="ts",
    )


def rows(begin: int, size: int) -> dict[str, pa.Table]:
    """A row a microsecond from `begin` on, in every stream."""
    times = begin + np.arange(size)
    table = pa.table([times % 97, pa.array([f"text {time % 89}" for time in times.tolist()]), times], schema=SCHEMA)
    return dict.fromkeys("abcd", table)


def run_large(window: str) -> None:
    """Windows that grow and shrink, states that are collected, a restore in the middle."""
    engine, now = ms.Engine(query(window), plan="(((a b) c) d)"), 0
    for number, size in enumerate([2_000] * 6 + [20] * 6):
        if number == 3:
            engine.migrate("((b c) (a d))", "jisc", budget=5)
        if number == 6:
            engine = ms.Engine.restore(engine.query, engine.snapshot(), plan="(((d c) b) a)")
        for _ in engine.push_batches(rows(now, size), watermark=now):
            pass
        now += size
    engine.finish()


def run_operators() -> None:
    """DISTINCT below joins, on either side of a join, that moves while rows come."""
    inputs = ", ".join(f"{name} [RANGE 300 MICROSECONDS]" for name in "abcd")
    text = f"SELECT DISTINCT a.s FROM {inputs} WHERE a.k = b.k AND b.k = c.k AND c.s = d.s AND b.ts - d.ts < 50"
    engine = ms.Engine(
        ms.query(text, dict.fromkeys("abcd", SCHEMA), "ts", step="1 millisecond"), plan="distinct(a b) (c d)"
    )
    for number in range(6):
        if number == 3:
            engine.migrate("(distinct(c d) distinct(distinct(a) b))", "jisc", budget=5)
        engine.push(rows(number * 500, 500), watermark=number * 500)
    engine.finish()


def run_everything() -> None:
    # Only now: what these modules import must not be compiled before the first engine is there.
    from ..migrate.changes import MIXED
    from ..migrate.migrating import Tally, check_seed
    from ..migrate.test_renumbering import far_rows, feed
    from ..migrate.workload import STREAMS, make_engine

    run_large("[RANGE 300 MICROSECONDS]")
    run_large("[ROWS 40]")
    run_operators()
    packed = make_engine("((r u) (s t))", "[RANGE 1 SECOND]")
    packed.push({stream: far_rows(stream, 0)[stream] for stream in STREAMS[:3]}, watermark=0)
    feed(packed, 0, 11)
    packed.migrate("(((r s) t) u)", "jisc", budget=1)
    feed(packed, 11, 40)
    for seed in SEEDS:
        check_seed(seed, MIXED, Tally())


def main() -> None:
    logging.getLogger("midstream").setLevel(logging.ERROR)
    ms.Engine(query("[RANGE 1 SECOND]"))
    kernels = all_kernels()
    before = {name: set(kernel.signatures) for name, kernel in kernels.items()}
    run_everything()
    later = {
        name: [str(signature) for signature in set(kernel.signatures) - before[name]]
        for name, kernel in kernels.items()
    }
    missed = sorted(name for name, signatures in before.items() if not signatures)
    print(json.dumps({"kernels": len(kernels), "missed": missed, "later": {k: v for k, v in later.items() if v}}))


if __name__ == "__main__":
    main()
