"""Engines that go on from a snapshot or from rows: what is stored, what counts, and what is found again."""

from __future__ import annotations

import pytest

import midstream as ms

from .test_bad_input import SECOND, read, rows, start


def test_a_snapshot_of_other_operators_or_of_another_step_is_refused() -> None:
    texts = {
        "join": "SELECT a.x AS x FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS] WHERE a.k = b.k",
        "distinct": "SELECT DISTINCT a.x AS x FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS] WHERE a.k = b.k",
        "group": "SELECT a.x AS x FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS] WHERE a.k = b.k GROUP BY a.x",
    }
    engines = {name: start(text, step=None) for name, text in texts.items()}
    for engine in engines.values():
        engine.push({"a": rows((1, 1)), "b": rows((1, 2))}, watermark=3 * SECOND)
    for name, engine in engines.items():
        for other, stored in engines.items():
            if name != other:
                with pytest.raises(ms.SnapshotError):
                    ms.Engine.restore(engine.query, stored.snapshot())
    with pytest.raises(ms.SnapshotError, match="step"):
        ms.Engine.restore(start(texts["distinct"], step="5 seconds").query, engines["distinct"].snapshot())


def test_a_stored_step_counts_under_smaller_windows() -> None:
    """The default of the smaller windows would be another step."""
    text = "SELECT DISTINCT a.x AS x FROM a [RANGE {0} SECONDS], b [RANGE {0} SECONDS] WHERE a.k = b.k"
    engine = start(text.format(40), step=None)
    assert engine.push({"a": rows((1, 1)), "b": rows((1, 2))}, watermark=3 * SECOND).num_rows == 0
    restored = ms.Engine.restore(start(text.format(20), step=None).query, engine.snapshot())
    assert read(restored.push({}, watermark=8 * SECOND)) == [(1, 2, 4), (1, 4, 8)]


@pytest.mark.parametrize("window", ["TUMBLE 1 SECOND", "RANGE 1 SECOND"])
def test_rows_that_leave_their_window_before_their_results_are_looked_for(window: str) -> None:
    """One stream under two aliases: in one of them its first row is of no use any more, the second one still is."""
    engine = start(f"SELECT DISTINCT b.x AS x FROM a [{window}] c, a [RANGE 9 SECONDS] b WHERE c.x > b.x", "1 second")
    known = {"a": rows((1, 1), (3, 4))}
    engine = ms.Engine.resume(engine.query, known, 4 * SECOND)
    engine.push({}, watermark=4 * SECOND)
    assert read(engine.push({}, watermark=5 * SECOND)) == [(1, 4, 5)]


def test_the_watermark_moves_on_between_a_snapshot_and_the_next_close() -> None:
    engine = start("SELECT DISTINCT a.x AS x FROM a [RANGE 2 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k", "1 second")
    engine.push({"a": rows((1, 1), (2, 2), (3, 5), (4, 5)), "b": rows((0, 1))}, watermark=2 * SECOND)
    restored = ms.Engine.restore(engine.query, engine.snapshot())
    for watermark in (4, 5, 6):
        found = [read(running.push({}, watermark=watermark * SECOND)) for running in (engine, restored)]
        assert found[0] == found[1] != []
