"""A base window against the list of rows that it should hold: appending, purging, resizing, packing, numbering."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from midstream.cql.windows import WindowKind, window_of
from midstream.kernels.types import LARGEST, SMALLEST
from midstream.state.window import BaseWindow, Renumbering, WindowLayout, WindowRows, composite

RANGE = 20
FAR = 10**9
Row = tuple[int, int, int, int, str, int | None]


def layout(kind: WindowKind = WindowKind.RANGE, size: int = RANGE, tracks_arrivals: bool = False) -> WindowLayout:
    payload = (("s", pa.string()), ("v", pa.int32()))
    return WindowLayout(window_of(kind, size), (0, 3), (1,), payload, tracks_arrivals)


def make_rows(rows: list[Row]) -> WindowRows:
    starts, ends, key, other, text, value = ([row[at] for row in rows] for at in range(6))
    integers = [np.array(values, np.int64) for values in (starts, ends, key, other)]
    return WindowRows(
        integers[0],
        integers[1],
        {0: integers[2], 3: integers[3]},
        {1: integers[2]},
        {"s": pa.array(text, pa.string()), "v": pa.array(value, pa.int32())},
    )


def draw_row(rng: np.random.Generator, start: int) -> Row:
    key = int(rng.integers(0, 5))
    value = None if rng.random() < 0.2 else int(rng.integers(0, 99))
    return start, start + RANGE, key, int(rng.integers(0, 2)), "x" * int(rng.integers(0, 60)), value


class Model:
    """A window and its rows by id."""

    def __init__(self) -> None:
        self.window = BaseWindow(layout())
        self.window.add_index((0, 3))
        self.rows: dict[int, Row] = {}
        self.packed = 0

    def push(self, rows: list[Row], watermark: int) -> None:
        renumbering = self.window.make_room(len(rows), watermark)
        if renumbering is not None:
            self._renumber(renumbering)
        first = self.window.append(make_rows(rows))
        assert first == self.window.tail - len(rows)
        self.rows.update(enumerate(rows, first))

    def _renumber(self, renumbering: Renumbering) -> None:
        self.packed += 1
        kept = renumbering.kept.tolist()
        assert self.window.tail == renumbering.first + len(kept), "ids stay below the old tail"
        self.rows = {renumbering.first + at: self.rows[old] for at, old in enumerate(kept)}

    def purge(self, watermark: int) -> None:
        self.window.purge(watermark)
        gone = [row_id for row_id in self.rows if row_id < self.window.head]
        assert all(self.rows.pop(row_id)[1] < watermark for row_id in gone)
        assert not self.rows or self.rows[self.window.head][1] >= watermark

    def check(self) -> None:
        window = self.window
        assert list(self.rows) == list(range(window.head, window.tail))
        held = window.held(np.arange(window.head, window.tail))
        wanted = make_rows(list(self.rows.values()))
        assert held.starts.tolist() == wanted.starts.tolist() and held.ends.tolist() == wanted.ends.tolist()
        for number in (0, 3):
            assert held.codes[number].tolist() == wanted.codes[number].tolist()
        assert held.band_codes[1].tolist() == wanted.band_codes[1].tolist()
        assert held.payload["s"].equals(wanted.payload["s"]) and held.payload["v"].equals(wanted.payload["v"])
        for key in range(5):
            ids = [row_id for row_id, row in self.rows.items() if row[2] == key]
            assert sorted(window.hash_indexes[(0,)].find(window.head, np.array([key])).tolist()) == ids
            assert sorted(window.sorted_indexes[1].find(window.ring(), np.array([key]), np.array([key]))) == ids
        for key, other in [(0, 0), (2, 1), (4, 0)]:
            ids = [row_id for row_id, row in self.rows.items() if row[2:4] == (key, other)]
            code = composite([np.array([key]), np.array([other])])
            assert sorted(window.hash_indexes[0, 3].find(window.head, code).tolist()) == ids

    def live(self, watermark: int) -> int:
        return sum(row[1] >= watermark for row in self.rows.values())


@pytest.mark.parametrize("seed", range(6))
def test_a_window_holds_what_lives(seed: int) -> None:
    """Disorder, bursts and pauses; everything that is alive stays, whatever is forgotten was dead."""
    rng = np.random.default_rng(seed)
    model, now, watermark = Model(), 0, 0
    for step in range(120):
        size = int(rng.choice([0, 1, 4, 40])) if step % 40 else 300
        model.push([draw_row(rng, max(watermark, now - int(rng.integers(0, 15)))) for _ in range(size)], watermark)
        now += int(rng.integers(0, 8))
        watermark = max(watermark, now - 10)
        model.purge(watermark)
        if step % 5 == 0:
            model.check()


@pytest.mark.parametrize("seed", range(3))
def test_a_far_future_row_in_front_does_not_keep_the_dead(seed: int) -> None:
    """Nothing leaves at the head; the window is packed instead, and stays in proportion to what lives."""
    rng = np.random.default_rng(seed)
    model = Model()
    model.push([draw_row(rng, FAR)], 0)
    biggest = 0
    for now in range(1, 900):
        model.push([draw_row(rng, now) for _ in range(int(rng.integers(1, 9)))], now)
        model.purge(now)
        if now % 30 == 0:
            model.check()
        if now > 100:
            biggest = max(biggest, model.window.nbytes)
            assert len(model.window) <= model.window.capacity <= 8 * 8 * (RANGE + 1)
    assert model.packed > 5
    assert model.rows[model.window.head][0] == FAR
    assert biggest < 8 * 8 * (RANGE + 1) * 300
    model.purge(FAR + RANGE + 1)
    assert len(model.window) == 0


def test_a_window_shrinks_after_a_burst() -> None:
    rng = np.random.default_rng(1)
    model = Model()
    model.push([draw_row(rng, 0) for _ in range(20_000)], 0)
    full = model.window.nbytes
    for now in range(RANGE + 1, RANGE + 40):
        model.push([draw_row(rng, now)], now)
        model.purge(now)
    model.check()
    assert model.window.capacity <= 1024
    assert model.window.nbytes < full / 10


@pytest.mark.parametrize("kept_share", [0.2, 0.8])
def test_packing_is_only_for_windows_that_are_mostly_dead(kept_share: float) -> None:
    window = BaseWindow(layout())
    rng = np.random.default_rng(2)
    live = int(64 * kept_share)
    rows = [draw_row(rng, 500) for _ in range(live)] + [draw_row(rng, 0) for _ in range(64 - live)]
    assert window.make_room(64, 0) is None
    window.append(make_rows(rows))
    renumbering = window.make_room(1, 100)
    assert (renumbering is not None) == (kept_share < 0.5)
    if renumbering is not None:
        assert renumbering.kept.tolist() == list(range(1, live + 1))
        assert renumbering.apply(np.array([1, live, live + 1, 65])).tolist() == [65 - live, 64, 65, 65]


def test_ids_that_are_not_kept_become_the_next_kept_one() -> None:
    renumbering = Renumbering(np.array([3, 5, 9]), 20)
    assert renumbering.apply(np.arange(11)).tolist() == [20, 20, 20, 20, 21, 21, 22, 22, 22, 22, 23]


def test_what_entries_name_is_below_the_window_if_it_was_not_kept() -> None:
    """Above the last kept row comes none: it must not become the row that enters next."""
    renumbering = Renumbering(np.array([3, 5, 9]), 20)
    assert renumbering.apply_to_entries(np.arange(11)).tolist() == [19, 19, 19, 20, 19, 21, 19, 19, 19, 22, 19]
    nothing = Renumbering(np.empty(0, np.int64), 20)
    assert nothing.apply_to_entries(np.arange(3)).tolist() == [19, 19, 19]


@pytest.mark.parametrize("kind", [WindowKind.UNBOUNDED, WindowKind.STATIC])
def test_windows_without_an_end_forget_nothing(kind: WindowKind) -> None:
    window = BaseWindow(layout(kind, 0))
    rng = np.random.default_rng(3)
    for _ in range(30):
        rows = [(*draw_row(rng, 0)[:1], int(LARGEST), *draw_row(rng, 0)[2:]) for _ in range(10)]
        assert window.make_room(10, FAR) is None
        window.append(make_rows(rows))
        window.purge(FAR)
    assert (window.head, window.tail) == (1, 301)


@pytest.mark.parametrize("size", [1, 3, 10])
@pytest.mark.parametrize("seed", range(3))
def test_a_rows_window_is_numbered(seed: int, size: int) -> None:
    """Filtered rows count; a row leaves just before the number of its n-th successor, and is then forgotten."""
    rng = np.random.default_rng([seed, size])
    window = BaseWindow(layout(WindowKind.ROWS, size, tracks_arrivals=True))
    stream: list[int] = []
    kept: list[int] = []
    for _ in range(150):
        count = int(rng.integers(0, 7))
        numbers = (stream[-1] if stream else 0) + np.cumsum(rng.integers(1, 5, count))
        keeps = np.flatnonzero(rng.random(count) < 0.6)
        rows = make_rows([(0, int(LARGEST), 1, 1, "", None)] * len(keeps))
        rows.arrivals, rows.ordinals = numbers[keeps], keeps + len(stream)
        rows.stream_arrivals, rows.first_ordinal = numbers, len(stream)
        window.make_room(len(rows), int(SMALLEST))
        window.append(rows)
        kept += rows.ordinals.tolist()
        stream += numbers.tolist()
        for row_id in range(window.head, window.tail):
            ordinal, slot = kept[row_id - 1], row_id & (window.capacity - 1)
            assert window.arrivals[slot] == stream[ordinal]
            has_left = ordinal + size < len(stream)
            assert window.arrival_ends[slot] == (stream[ordinal + size] - 1 if has_left else LARGEST)
        window.purge(int(SMALLEST))
        assert window.head == 1 + sum(ordinal + size < len(stream) for ordinal in kept)
        assert window.tail == 1 + len(kept)
    assert window.capacity == 64


@pytest.mark.parametrize("size", [1, 3, 10])
@pytest.mark.parametrize("seed", range(4))
def test_rows_that_enter_late_keep_their_numbers(seed: int, size: int) -> None:
    """A row that was held back leaves when it would have left, wherever it stands in the window."""
    rng = np.random.default_rng([seed, size, 5])
    window = BaseWindow(layout(WindowKind.ROWS, size, tracks_arrivals=True))
    stream: list[int] = []
    entered: list[int] = []
    held_back: list[int] = []

    def end_of(ordinal: int, came: int) -> int:
        return stream[ordinal + size] - 1 if ordinal + size < came else int(LARGEST)

    for _ in range(150):
        before, count = len(stream), int(rng.integers(0, 7))
        stream += ((stream[-1] if stream else 0) + np.cumsum(rng.integers(1, 5, count))).tolist()
        late = [ordinal for ordinal in held_back if rng.random() < 0.3]
        fresh = [ordinal for ordinal in range(before, len(stream)) if rng.random() < 0.5]
        held_back = [ordinal for ordinal in held_back if ordinal not in late and ordinal + size >= len(stream)]
        held_back += [ordinal for ordinal in range(before, len(stream)) if ordinal not in fresh]
        coming = late + fresh
        rows = make_rows([(0, int(LARGEST), 1, 1, "", None)] * len(coming))
        rows.ordinals = np.array(coming, np.int64)
        rows.arrivals = np.array([stream[ordinal] for ordinal in coming], np.int64)
        rows.arrival_ends = np.array([end_of(ordinal, before) for ordinal in coming], np.int64)
        rows.stream_arrivals, rows.first_ordinal = np.array(stream[before:], np.int64), before
        window.make_room(len(rows), int(SMALLEST))
        window.append(rows)
        entered += coming
        for row_id in range(window.head, window.tail):
            ordinal, slot = entered[row_id - 1], row_id & (window.capacity - 1)
            assert window.arrivals[slot] == stream[ordinal]
            assert window.arrival_ends[slot] == end_of(ordinal, len(stream))
        window.purge(int(SMALLEST))
        gone = entered[: window.head - 1]
        assert all(ordinal + size < len(stream) for ordinal in gone)
        assert window.head > len(entered) or entered[window.head - 1] + size >= len(stream)
    assert window.capacity == 64
