"""What is easy to get wrong in states with holes, one story each; every one was a failing mutant of the model.

Budget 0, so that nothing but a probe fills a hole.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import midstream as ms

from .changes import NAMES
from .stories import Row, find_expected, make_engine, push, read_story, run

STORIES = {
    "the state already has the key": ("((R T) S)", "r1 s1 -> ((R S) T) -> r2 s2 t1 t2"),
    "the left side is filled": ("((R T) (S U))", "r1 s1 t1 -> ((R S) (T U)) -> u1"),
    "the right side is filled": ("((R T) (S U))", "t1 u1 r1 -> ((R S) (T U)) -> s1"),
    "rows after the mark are not filled again": ("((R T) S)", "r1 s1 -> ((R S) T) -> s2 r2 t1 t2"),
    "a fill is no news": ("((R T) S)", "r1 s1 t1 -> ((R S) T) -> t2 t3"),
    "a fill is no news two levels down": ("((R U) (S T))", "r1 s1 t1 u1 -> (((R S) T) U) -> u2 t2 u3"),
    "a kept incomplete state is still incomplete": (
        "((R U) (S T))",
        "r1 s1 u1 -> (((R S) T) U) -> -> ((R S) (T U)) -> t1",
    ),
    "a kept incomplete state keeps its mark": (
        "((R U) (S T))",
        "r1 s1 -> (((R S) T) U) -> s2 r2 -> ((R S) (T U)) -> u1 t1",
    ),
    "partly filled, then kept twice": (
        "((R U) (S T))",
        "r1:a s1:a r2:b s2:b -> (((R S) T) U) -> t1:a r3:b -> ((R S) (T U)) -> u1:a s3:b -> "
        "(((S R) U) T) -> u2:b t2:b t3:a",
    ),
    "there and back": ("((R T) S)", "r1 s1 -> ((R S) T) -> r2 -> ((R T) S) -> t1 -> ((R S) T) -> t2 s2"),
    "there and back at once": ("((R T) S)", "r1 t1 s1 -> ((R S) T) -> -> ((R T) S) -> s2 t2"),
    "to itself": ("((R T) S)", "r1 t1 -> ((R T) S) -> t2 -> ((R T) S) -> s1 s2"),
    "only the sides change": ("((R T) S)", "r1 t1 -> (S (T R)) -> r2 s1 -> ((T R) S) -> t2 s2"),
    "before the first row": ("((R T) S)", "-> ((R S) T) -> r1 s1 t1 -> ((R T) S) -> s2"),
    "a hole whose rows expire unfilled": ("((R T) S)", "r1@1 s1@2 -> ((R S) T) -> t1@2000003 r2 s2 t2"),
}


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("strategy", [name for name in NAMES if name != "pause-drain-resume"])
def test_results_are_those_of_the_definition(name: str, strategy: str) -> None:
    plan, story = STORIES[name]
    streams = "".join(letter for letter in plan if letter.isalpha())
    assert run(make_engine(plan), story, strategy) == find_expected(story, streams)


def test_a_kept_state_is_incomplete_until_its_own_hole_is_filled() -> None:
    engine = make_engine("((R U) (S T))")
    assert run(engine, "r1 s1 u1 -> (((R S) T) U) -> -> ((R S) (T U)) -> ") == [[], [], []]
    assert holes(engine) == {"R S": 1, "T U": 0}
    assert push(engine, *rows("t1@9")) == ["r1 s1 t1 u1"]
    assert holes(engine) == {"R S": 0, "T U": 0}


def test_a_second_transition_counts_only_what_is_missing_now() -> None:
    engine = make_engine("((R U) (S T))")
    run(engine, "r1:a s1:a r2:b s2:b -> (((R S) T) U) -> t1:a s3:b -> ((R S) (T U)) -> ")
    assert holes(engine)["R S"] == 1  # r1 was filled for t1, s3 is news, r2 is missing still
    assert push(engine, *rows("u1:a@20")) == ["r1 s1 t1 u1"]
    assert push(engine, *rows("u2:b@21 t2:b@22")) == ["r2 s2 t2 u2", "r2 s3 t2 u2"]


def test_filled_entries_are_never_emitted() -> None:
    engine = make_engine("((R T) S)")
    assert run(engine, "r1 s1 t1") == [[], [], ["r1 s1 t1"]]
    engine.migrate("((R S) T)", "moving-state")
    assert engine.push({}).num_rows == 0
    engine.migrate("((S T) R)", "jisc", budget="1 hour")
    assert engine.push({}).num_rows == 0
    assert engine.migration is not None and engine.migration.is_done
    assert engine.migration.entries == 1
    assert engine.stats().rows_out == 1


def test_a_push_whose_rows_meet_each_other_and_a_hole() -> None:
    """New rows on both sides of a join, and old ones that are missing: every pair once."""
    engine = make_engine("((R T) (S U))")
    run(engine, "r1 s1 t1 u1 -> ((R S) (T U)) -> ")
    found = push(engine, *rows("r2@9 s2@9 t2@9 u2@9"))
    names = [f"r{a} s{b} t{c} u{d}" for a in (1, 2) for b in (1, 2) for c in (1, 2) for d in (1, 2)]
    assert found == sorted(names)[1:]


@pytest.mark.parametrize("way", ["migrate", "restore"])
def test_a_state_whose_key_has_a_part_that_only_some_of_its_streams_know(way: str) -> None:
    """The push brings a row to a missing state's own stream and one to the join above, which has two keys."""
    schema = pa.schema({"v": pa.int64(), "k": pa.int64(), "m": pa.int64(), "ts": pa.int64()})
    inputs = ", ".join(f"{name} [RANGE 1 SECOND]" for name in "abcde")
    query = ms.query(
        f"SELECT d.v FROM {inputs} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND d.k = e.k AND a.m = b.m",
        schemas=dict.fromkeys("abcde", schema),
        event_time="ts",
    )

    def table(number: int) -> pa.Table:
        return pa.table([[number], [0], [0], [number]], schema=schema)

    plan = "(c (((e a) d) b))"
    engine = ms.Engine(query, plan=plan if way == "restore" else "((c d) ((a b) e))")
    for number, stream in enumerate("adec"):
        engine.push({stream: table(number)}, watermark=0)
    if way == "restore":
        engine = ms.Engine.restore(query, engine.snapshot())
    else:
        engine.migrate(plan, "jisc", budget=0)
    out = engine.push({"b": table(5), "d": table(6)})
    assert sorted(out.column("v").to_pylist()) == [1, 6]


def rows(text: str) -> list[Row]:
    return [step for step in read_story(text) if isinstance(step, Row)]


def holes(engine: ms.Engine) -> dict[str, int]:
    return {state.name: state.holes for state in engine.stats().states if state.kind == "join"}
