"""The set-up of JIT's experiments, what they count, and how they judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import midstream as ms
from midstream.engine.executors.tree import TreeExecutor
from midstream.engine.joins.access import LoopPath
from midstream.lab.definition import Settings
from midstream.lab.experiments import jit_figures
from midstream.lab.experiments.jit_left_out import CountingTree, LeftOut, left_out_of
from midstream.lab.experiments.jit_run import COUNTED, HASH, LOOPS, Measurement, measure
from midstream.lab.experiments.jit_streams import BUSHY, LEFT_DEEP, Setting, Streams
from midstream.lab.nested_loops import NestedLoops, count_pairs

SMALL = Setting(LEFT_DEEP, 4, 1.0, 1.0, 5)


def test_every_pair_of_streams_compares_columns_of_its_own_and_some_rows_match() -> None:
    streams = Streams(SMALL, 3.0, 1)
    assert streams.workload.text.endswith(
        "WHERE A.to_B = B.to_A AND A.to_C = C.to_A AND A.to_D = D.to_A AND B.to_C = C.to_B AND B.to_D = D.to_B "
        "AND C.to_D = D.to_C"
    )
    largest = {name: int(np.max(table["to_A"])) for name, table in streams.workload.tables.items() if name != "A"}
    assert largest["B"] == largest["C"] == 4 and largest["D"] > 250
    assert streams.answer().rows > 0


def test_nested_loops_look_at_every_pair() -> None:
    """Three rows of each stream that all match: ab 9, abc 27, abcd 81 combinations, a push for each stream."""
    text = Streams(SMALL, 1.0, 1).workload.text
    row = {"ts": [0, 1, 2], "v": [0, 1, 2]}
    tables = {name: row | {f"to_{other}": [7, 7, 7] for other in "ABCD" if other != name} for name in "ABCD"}
    schemas = {name: dict.fromkeys(columns, int) for name, columns in tables.items()}
    engine = ms.Engine(ms.query(text, schemas, "ts"), plan="(((A B) C) D)", executor=NestedLoops(), demand="off")
    found = [engine.push({name: tables[name]}).num_rows for name in "ABCD"]
    executor = engine._pipeline.executor
    assert isinstance(executor, TreeExecutor)
    assert all(isinstance(child.path, LoopPath) for node in executor.joins() for child in (node.left, node.right))
    assert found == [0, 0, 0, 81]
    # B meets A, C meets AB, D meets ABC; nothing of what comes later is there yet.
    assert count_pairs(executor) == 3 * 3 + 3 * 9 + 3 * 27


def test_what_has_lost_its_partner_is_counted() -> None:
    """a and b are joined because c d has partners for them; then d expires, and (a b) stays."""
    row = {"ts": int, "v": int, "x": int, "y": int}
    text = """SELECT A.v FROM A [RANGE 100 SECONDS], B [RANGE 100 SECONDS], C [RANGE 10 SECONDS], D [RANGE 10 SECONDS]
              WHERE A.x = B.x AND C.x = D.x AND A.y = C.y AND B.y = D.y"""
    engine = ms.Engine(
        ms.query(text, dict.fromkeys("ABCD", row), "ts"), plan="((A B) (C D))", executor=CountingTree(), demand="on"
    )
    one = [{"ts": 0, "v": 1, "x": 1, "y": 1}]
    assert engine.push(dict.fromkeys("ABCD", one)).num_rows == 1
    for second in range(20, 40):
        time = second * 1_000_000
        engine.push({"A": [{"ts": time, "v": 2, "x": 2, "y": 2}]}, watermark=time)
    found = left_out_of(engine._pipeline.executor)
    assert 0 < found.outlived <= found.entries
    assert left_out_of(None) == LeftOut()


def test_a_combination_of_three_rows_that_nobody_needs_is_counted() -> None:
    """Every row of D has a partner in A and one in C, but none is for a and c of the same combination."""
    row = {"ts": int, "v": int, "x": int, "y": int, "z": int}
    text = """SELECT A.v FROM A [RANGE 9 SECONDS], B [RANGE 9 SECONDS], C [RANGE 9 SECONDS], D [RANGE 9 SECONDS]
              WHERE A.x = B.x AND B.y = C.y AND A.z = D.y AND C.z = D.z"""
    engine = ms.Engine(
        ms.query(text, dict.fromkeys("ABCD", row), "ts"), plan="(((A B) C) D)", executor=CountingTree(), demand="on"
    )
    same = [{"ts": 0, "v": number, "x": number, "y": number, "z": number} for number in (1, 2)]
    crossed = [values | {"z": 3 - values["z"]} for values in same]
    assert engine.push({"A": same, "B": same, "C": same, "D": crossed}).num_rows == 0
    assert left_out_of(engine._pipeline.executor).without_partner == 2


def made_up(joins: str, demand: str, seconds: float, megabytes: float) -> Measurement:
    counts = dict.fromkeys(
        ("pairs", "made", "most_entries", "hidden", "suspended", "resumed", "checks", "without_partner", "outlived"), 1
    )
    size = round(1e6 * megabytes)
    return Measurement(
        joins=joins,
        demand=demand,
        seconds=seconds,
        most_bytes=size,
        window_bytes=size // 2,
        join_bytes=size // 4,
        waiting_bytes=size // 4,
        entries_seen=1,
        **counts,
    )


def judge(seconds: float, megabytes: float) -> list[str]:
    """What is wrong if all takes 10 s and 10 MB without demand, and this with it."""
    axis = jit_figures.Axis("window", "window", "{:g} minutes", (10, 30), judged=30)
    taken = {
        (value, joins, demand): made_up(joins, demand, *((10.0, 10.0) if demand == "off" else (seconds, megabytes)))
        for value in axis.values
        for joins in (HASH, LOOPS)
        for demand in ("off", "on")
    }
    return jit_figures._judge_bushy(taken, axis, axis.values)


def test_a_claim_is_judged_by_time_and_memory() -> None:
    assert judge(0.9, 3.7) == []
    assert judge(2.0, 3.7) == ["nested loops without demand take only 5.0 times as long at 30 minutes"]
    larger, why = judge(0.9, 6.0)
    assert larger == "memory is at best 0.60 times what it is without, not 0.38 times"
    assert why.startswith("at 30 minutes join states take 1.5 MB instead of 2.5, with an index for every set of ")
    assert len(judge(10.0, 10.0)) == 5


@pytest.mark.slow
@pytest.mark.parametrize(("streams", "most"), [(4, 0.58), (8, 0.30)])
def test_demand_stores_a_part_of_a_clique(streams: int, most: float) -> None:
    found = measure(Setting(BUSHY, streams, 20.0, 1.0, 200), HASH, Settings())
    made = {(run.joins, run.demand): run.made for run in found}
    assert made[HASH, "on"] <= most * made[HASH, "off"]
    assert made[COUNTED, "on"] == made[HASH, "on"]


def test_a_run_that_is_scaled_down_keeps_how_many_partners_a_row_has() -> None:
    setting = Setting(BUSHY, 4, 20.0, 1.0, 200)
    small = setting.scaled(0.02)
    assert small == replace(setting, window=2.0, dmax=20)
    assert small.window_rows / small.dmax == setting.window_rows / setting.dmax
