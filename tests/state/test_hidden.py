"""Hidden rows against the list of rows that should wait: hiding, waking, taking out, expiring, packing."""

from __future__ import annotations

import numpy as np
import pytest

from midstream.cql.windows import WindowKind
from midstream.kernels.types import LARGEST, SMALLEST
from midstream.state.hidden import HiddenRows

from .test_window import RANGE, Row, draw_row, layout, make_rows

KINDS = (WindowKind.RANGE, WindowKind.UNBOUNDED)


def texts_of(hidden: HiddenRows, ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[tuple[int, str]]:
    rows = hidden.held(ids)
    return sorted(zip(rows.starts.tolist(), rows.payload["s"].to_pylist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_rows_leave_from_anywhere(seed: int, kind: WindowKind) -> None:
    rng = np.random.default_rng([seed, 9])
    hidden = HiddenRows(layout(kind))
    waiting: list[tuple[Row, int]] = []
    most = 0
    for now in range(400):
        rows = [draw_row(rng, now + int(rng.integers(0, 5))) for _ in range(int(rng.integers(0, 6)))]
        if kind is WindowKind.UNBOUNDED:
            rows = [(row[0], int(LARGEST), *row[2:]) for row in rows]
        reasons = rng.integers(0, 3, len(rows))
        hidden.hide(make_rows(rows), reasons, now)
        waiting += zip(rows, reasons.tolist(), strict=True)
        most = max(most, len(waiting))
        key, reason = int(rng.integers(0, 5)), int(rng.integers(0, 3))
        probe, interval = np.array([key, key]), (np.array([now, now]), np.array([now + RANGE] * 2))
        woken = np.sort(hidden.hash_indexes[(0,)].wake(hidden.ring(), probe, interval, hidden.reasons, reason))
        wanted = [
            (row, why)
            for row, why in waiting
            if row[2] == key and why == reason and row[0] <= now + RANGE and row[1] >= now
        ]
        assert texts_of(hidden, woken) == sorted((row[0], row[4]) for row, _ in wanted)
        again = rng.random(len(woken)) < 0.5
        hidden.set_reasons(woken[again], np.full(int(again.sum()), 2))
        stays = sorted(texts_of(hidden, woken[again]))
        hidden.take(woken[~again])
        for pair in wanted:
            waiting.remove(pair)
        for row, _ in wanted:
            if (row[0], row[4]) in stays:
                stays.remove((row[0], row[4]))
                waiting.append((row, 2))
        hidden.purge(now)
        waiting = [(row, why) for row, why in waiting if row[1] >= now]
        if rng.random() < 0.2:
            before = hidden.nbytes
            hidden.trim(int(rng.integers(1, 3)))
            assert hidden.nbytes <= before, "to trim gives memory back, or does nothing"
        found = hidden.living(now)
        assert texts_of(hidden, found) == sorted((row[0], row[4]) for row, _ in waiting)
        everything = hidden.living(int(SMALLEST))
        assert hidden.waiting == len(everything) >= len(waiting), "what has expired behind others may be counted"
        counted = np.bincount(hidden.reasons_of(found), minlength=3).tolist()
        assert counted == [sum(why == reason for _, why in waiting) for reason in range(3)]
    assert hidden.capacity <= 4 * max(64, most), "rows that have left take no room for long"
    hidden.take(hidden.living(int(SMALLEST)))
    hidden.purge(int(SMALLEST))
    assert len(hidden) == 0, "what has left is forgotten also before there is a watermark"
