"""Races: right answers from every lane over ROWS windows, before, during and after a transition; wrong ones noticed."""

from __future__ import annotations

import itertools
from collections import Counter

import pyarrow as pa
import pytest

from midstream.lab.answers import Digest, digest_of
from midstream.lab.clock import VirtualClock
from midstream.lab.definition import WrongAnswer
from midstream.lab.experiments.jisc_streams import Streams
from midstream.lab.race import CACQ, COMBINED, JISC, MOVING_STATE, PARALLEL_TRACK, PLAIN, Race, lanes_for
from midstream.plan import parse_plan

EVERYONE = (JISC, MOVING_STATE, PARALLEL_TRACK, COMBINED, CACQ, PLAIN)


def naive(streams: Streams, rows: int) -> Digest:
    """Every combination of rows, one by one: the keys are equal and every row is still in its window at the end."""
    tables = [table.slice(0, rows).to_pylist() for table in streams.tables.values()]
    found = []
    for combination in itertools.product(*(range(rows) for _ in tables)):
        chosen = [table[place] for table, place in zip(tables, combination, strict=True)]
        if len({row["k"] for row in chosen}) > 1:
            continue
        last = max(row["ts"] for row in chosen)
        closing = [table[p + streams.window] if p + streams.window < rows else None
                   for table, p in zip(tables, combination, strict=True)]  # fmt: skip
        if all(row is None or last < row["ts"] for row in closing):
            names = [f"{name}_v" for name in streams.names]
            values = dict(zip(names, (row["v"] for row in chosen), strict=True))
            found.append({**values, "valid_from": last, "valid_to": None})
    return digest_of([pa.Table.from_pylist(found, schema=streams.query.output_schema)])


def test_the_oracle_is_the_definition() -> None:
    streams = Streams(joins=2, window=7, rows=25, batch=5, seed=5)
    expected = naive(streams, 25)
    assert expected.rows > 20
    assert streams.answer(0, 25) == expected


def test_the_oracle_tells_results_by_their_last_row() -> None:
    streams = Streams(joins=3, window=30, rows=120, batch=5, seed=2)
    parts = [streams.answer(first, first + 40) for first in (0, 40, 80)]
    assert parts[0] + parts[1] + parts[2] == streams.answer(0, 120)


@pytest.mark.parametrize("is_theta", [False, True])
@pytest.mark.parametrize("executor", ["tree", "stems"])
@pytest.mark.parametrize(
    ("window", "batch"),
    [pytest.param(20, 1, marks=pytest.mark.slow), (100, 7), pytest.param(100, 10, marks=pytest.mark.slow), (100, 50)],
)
def test_every_contender_gives_the_oracles_results(window: int, batch: int, executor: str, is_theta: bool) -> None:
    window = min(window, 30) if is_theta else window
    streams = Streams(joins=3, window=window, rows=5 * window, batch=batch, seed=4, is_theta=is_theta)
    for plan in (streams.best_case, streams.worst_case):
        race = Race(lanes_for(EVERYONE, streams.query, streams.plan, executor))
        race.run(streams.batches(0, 2 * window))
        race.check(streams.answer(0, 2 * window), "before")
        race.migrate(plan)
        race.run(streams.batches(2 * window))
        race.check(streams.answer(2 * window, streams.rows), "after")
        assert not any(lane.is_migrating for lane in race.lanes)


def test_every_lane_follows_every_other_one_equally_often() -> None:
    streams = Streams(joins=2, window=20, rows=60, batch=10, seed=4)
    race = Race(lanes_for((JISC, PLAIN, CACQ), streams.query, streams.plan))
    turns = [race.lanes.index(lane) for _ in range(1_000) for lane in race._in_turn()]
    followers = Counter(pair for pair in itertools.pairwise(turns) if pair[0] != pair[1])
    assert sorted(turns[:3]) == [0, 1, 2]
    assert len(followers) == 6
    assert max(followers.values()) < 1.2 * min(followers.values())


def test_a_wrong_answer_is_noticed() -> None:
    streams = Streams(joins=2, window=20, rows=60, batch=10, seed=4)
    race = Race(lanes_for((PLAIN, CACQ), streams.query, streams.plan))
    race.run(streams.batches(0, 50))
    race.lanes[1].push({name: table.slice(50, 10) for name, table in streams.tables.items()})
    with pytest.raises(WrongAnswer, match="CACQ in lane 2 gives"):
        race.check(None, "test")
    with pytest.raises(WrongAnswer, match=r"plain pipeline in lane 1 gives .* results; expected are"):
        race.check(streams.answer(0, 60), "test")


def test_as_many_but_other_results_are_noticed() -> None:
    right, wrong = pa.table({"x": [1, 2], "y": [1, 2]}), pa.table({"x": [1, 2], "y": [2, 1]})
    assert digest_of([right]) != digest_of([wrong])
    assert digest_of([right.slice(1), right.slice(0, 1)]) == digest_of([right])


def test_best_and_worst_case_share_all_states_but_one_and_none() -> None:
    streams = Streams(joins=6, window=10, rows=10, batch=1, seed=0)
    old, best, worst = (
        {node.inputs for node in parse_plan(text, streams.names).joins()}
        for text in (streams.plan, streams.best_case, streams.worst_case)
    )
    everything = frozenset(range(7))
    assert len(best - old) == 1 and len(next(iter(best - old))) == 6
    assert old & worst == {everything}


def test_the_clock_falls_behind_only_where_the_engine_lags() -> None:
    ticks = iter([0.0, 0.5, 10.0, 12.0])
    clock = VirtualClock(timer=lambda: next(ticks))
    clock.wait_for(1.0)
    with clock.working():
        pass
    assert clock.now == 1.5
    clock.wait_for(2.0)
    with clock.working():
        pass
    assert (clock.now, clock.lag(3.0), clock.lag(5.0)) == (4.0, 1.0, 0.0)
