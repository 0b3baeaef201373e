"""Parallel Track that holds the new plan's results back until the old plan is dropped, as its paper does.

Then results do not come in the push of their last row; over the whole run they are the same.
"""

from __future__ import annotations

import collections

import pytest

import midstream as ms

from . import ahead, stories
from .changes import NAMES
from .workload import NEW, OLD, WINDOW, make_engine, push

Result = tuple[int, ...]
#: A row's number is that of its push times the rows of a push, so these are the first rows after the transition.
BEGIN = WINDOW
FIRST_NEW = BEGIN * 6
END = 3 * WINDOW
THIRD = "((r s) (t u))"


def run_reference(end: int = END) -> list[list[Result]]:
    engine = make_engine(OLD)
    return [push(engine, number) for number in range(end)]


def make_fed_engine() -> ms.Engine:
    engine = make_engine(OLD)
    for number in range(BEGIN):
        push(engine, number)
    engine.migrate(NEW, "parallel-track", hold=True)
    return engine


def count_results(pushes: list[list[Result]]) -> collections.Counter[Result]:
    return collections.Counter(result for results in pushes for result in results)


def is_new(result: Result) -> bool:
    return all(number >= FIRST_NEW for number in result[:4])


def test_old_results_first_then_all_that_were_held() -> None:
    engine, wanted = make_fed_engine(), run_reference()
    found: list[list[Result]] = []
    for number in range(BEGIN, END):
        assert engine.migration is not None
        was_done = engine.migration.is_done
        found.append(push(engine, number))
        if not engine.migration.is_done:
            assert found[-1] == [result for result in wanted[number] if not is_new(result)]
        elif was_done:
            assert found[-1] == wanted[number]
        else:  # the push that drops the old plan releases
            held = [result for earlier in wanted[BEGIN : number + 1] for result in earlier if is_new(result)]
            assert found[-1] == sorted(held + [result for result in wanted[number] if not is_new(result)])
            assert held
    assert count_results(found) == count_results(wanted[BEGIN:])
    assert engine.stats().rows_out == sum(len(results) for results in wanted)


def test_no_later_result_is_older_in_every_stream() -> None:
    """The paper's order of timestamps: of two results, the later one has a row that is not older than the earlier's."""
    engine, wanted = make_fed_engine(), run_reference()
    order = [result for number in range(BEGIN, END) for result in push(engine, number)[::40]]
    assert any(is_new(result) for result in order) and not all(is_new(result) for result in order)
    assert len(wanted) == END
    for place, earlier in enumerate(order):
        for later in order[place + 1 :: 5]:
            assert any(mine >= other for mine, other in zip(later[:4], earlier[:4], strict=True)), (earlier, later)


@pytest.mark.parametrize("extra", [1, 5, WINDOW - 2])
def test_held_results_survive_storing_and_restoring(extra: int) -> None:
    engine, wanted = make_fed_engine(), run_reference()
    found = [push(engine, number) for number in range(BEGIN, BEGIN + extra)]
    engine = ms.Engine.restore(engine.query, engine.snapshot().to_bytes())
    found.append(push(engine, BEGIN + extra))
    assert count_results(found) == count_results(wanted[BEGIN : BEGIN + extra + 1])
    assert [push(engine, number) for number in range(BEGIN + extra + 1, END)] == wanted[BEGIN + extra + 1 :]
    assert engine.finish().num_rows == 0


@pytest.mark.parametrize("changed", ["r.v AS other", "r.v + 0 AS a", "r.k AS a"])
def test_held_results_go_on_only_under_their_own_select_list(changed: str) -> None:
    engine = make_fed_engine()
    query = ms.query(engine.query.text.replace("r.v AS a", changed), schemas=engine.query.schemas, event_time="ts")
    for number in range(BEGIN, BEGIN + 5):
        push(engine, number)
    with pytest.raises(ms.SnapshotError, match=r"holds .* results back, and they have other columns than the query"):
        ms.Engine.restore(query, engine.snapshot().to_bytes())
    if changed != "r.k AS a":  # which was not kept
        assert ms.Engine.restore(query, make_engine(OLD).snapshot()).query is query


def test_stats_count_what_is_held() -> None:
    engine = make_fed_engine()
    assert {state.kind for state in engine.stats().states} == {"window", "join"}
    for number in range(BEGIN, BEGIN + 5):
        push(engine, number)
    stats, held = engine.stats(), engine.snapshot().held
    (output,) = (state for state in stats.states if state.kind == "output")
    assert output.bytes >= held.num_rows * held.num_columns * 8 > 0
    assert stats.state_bytes == sum(state.bytes for state in stats.states)


def test_finish_releases() -> None:
    engine, wanted = make_fed_engine(), run_reference()
    found = [push(engine, number) for number in range(BEGIN, BEGIN + 5)]
    found.append([tuple(row.values()) for row in engine.finish().to_pylist()])
    assert found[-1] and all(is_new(result) for result in found[-1])
    assert count_results(found) == count_results(wanted[BEGIN : BEGIN + 5])
    assert engine.finish().num_rows == 0


ON_TOP = [(name, False) for name in NAMES if name != "pause-drain-resume"] + [("parallel-track", True)]


@pytest.mark.parametrize(("strategy", "hold"), ON_TOP)
def test_another_migration_on_top(strategy: str, hold: bool) -> None:
    """Nothing is lost or repeated, whenever what the first one holds is released."""
    engine, wanted = make_fed_engine(), run_reference(4 * WINDOW)
    found = [push(engine, number) for number in range(BEGIN, BEGIN + 5)]
    engine.migrate(THIRD, strategy, hold=hold)
    found += [push(engine, number) for number in range(BEGIN + 5, 4 * WINDOW)]
    found.append([tuple(row.values()) for row in engine.finish().to_pylist()])
    missing, too_much = (
        count_results(wanted[BEGIN:]) - count_results(found),
        count_results(found) - count_results(wanted[BEGIN:]),
    )
    assert not missing, f"{missing.total()} results are missing"
    assert not too_much, f"{too_much.total()} results come twice"


@pytest.mark.parametrize(("strategy", "hold"), ON_TOP)
def test_a_result_of_rows_that_are_new_to_both_migrations_comes_once(strategy: str, hold: bool) -> None:
    engine = stories.make_engine("(R S)", {"R": 10, "S": 10})
    found = stories.run(engine, "r1@1 s1@1")
    engine.migrate("(S R)", "parallel-track", hold=True)
    engine.migrate("(R S)", strategy, hold=hold)
    found += stories.run(engine, "r2@2 s2@2 r3@30")
    found.append([" ".join(list(row.values())[:2]) for row in engine.finish().to_pylist()])
    assert sorted(result for results in found for result in results) == ["r1 s1", "r1 s2", "r2 s1", "r2 s2"]


def test_only_parallel_track_holds() -> None:
    for name in NAMES:
        engine = make_engine(OLD)
        if name != "parallel-track":
            with pytest.raises(ms.EngineError, match="parallel-track"):
                engine.migrate(NEW, name, hold=True)
            assert engine.migration is None


def test_new_results_are_told_from_old_ones_after_windows_were_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old rows then have ids that were new ones'."""
    packed, begin, end = ahead.count_packed(monkeypatch), 20, 60
    runs = []
    for hold in (False, True):
        engine = ahead.make_engine()
        for number in range(begin):
            ahead.push(engine, number)
        engine.migrate("(b a)", "parallel-track", hold=hold)
        packed.clear()
        runs.append([ahead.push(engine, number) for number in range(begin, end)])
        assert max(packed, default=0) > ahead.EACH, "no window was packed with live rows between dead ones"
        assert engine.migration is not None and engine.migration.is_done
    wanted, found = runs
    released = begin + ahead.AHEAD + 2  # when the last of the old rows have left
    for number, results in enumerate(found[: released - begin], begin):
        assert results == [result for result in wanted[number - begin] if not ahead.is_new(result, begin)]
    assert count_results(found) == count_results(wanted)
