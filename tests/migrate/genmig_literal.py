"""GenMig read word for word, in plain Python over two streams, to show which rows come out wrong.

Rows of R and S join if their keys are equal; a result is R's label with the interval in which both rows are valid. Both
ends count, as everywhere in Midstream. `old` rows were there before the migration, `new` ones come after it in one
batch. The split time T is the first moment at which no old row is valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

#: A label, the first and the last moment.
Result = tuple[str, int, int]


@dataclass(frozen=True)
class Row:
    key: str
    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Input:
    """The rows of R and S; each is valid from its event time for `window` microseconds."""

    window: int
    r: tuple[tuple[str, str, int], ...]
    s: tuple[tuple[str, str, int], ...]

    def rows(self) -> tuple[list[Row], list[Row]]:
        r, s = ([Row(key, label, ts, ts + self.window) for key, label, ts in rows] for rows in (self.r, self.s))
        return r, s


def join_naively(*inputs: Input) -> list[Result]:
    """The definition: all pairs of all rows."""
    r = [row for given in inputs for row in given.rows()[0]]
    s = [row for given in inputs for row in given.rows()[1]]
    return sorted(join(r, s))


def join(r: list[Row], s: list[Row], s_first: bool = False) -> Iterator[Result]:
    """Nested loops, R outside or S outside: two plans that find the same in another order."""
    pairs = ((a, b) for b in s for a in r) if s_first else ((a, b) for a in r for b in s)
    for a, b in pairs:
        start, end = max(a.start, b.start), min(a.end, b.end)
        if a.key == b.key and start <= end:
            yield a.label, start, end


def find_split_time(old: Input) -> int:
    return max(row.end for rows in old.rows() for row in rows) + 1


def keep_before(rows: list[Row], split: int) -> list[Row]:
    """What the old plan gets of new rows: the part before T."""
    return [replace(row, end=min(row.end, split - 1)) for row in rows if row.start < split]


def keep_after(rows: list[Row], split: int) -> list[Row]:
    """What the new plan gets: the part from T on."""
    return [replace(row, start=max(row.start, split)) for row in rows if row.end >= split]


def coalesce_by_value(old: Input, new: Input) -> list[Result]:
    """Halves that meet at T are put together if their *values* are equal, the first found first."""
    split = find_split_time(old)
    (r0, s0), (r1, s1) = old.rows(), new.rows()
    out = list(join(r0, s0))
    waiting: list[Result] = []
    for result in join(r0 + keep_before(r1, split), s0 + keep_before(s1, split)):
        if result not in out:
            (waiting if result[2] == split - 1 else out).append(result)
    for label, start, end in join(keep_after(r1, split), keep_after(s1, split), s_first=True):
        half = next((held for held in waiting if held[0] == label), None) if start == split else None
        if half is not None:
            waiting.remove(half)
        out.append((label, start if half is None else half[1], end))
    return sorted(out + waiting)


def filter_by_reference_point(old: Input, new: Input) -> list[Result]:
    """The old plan gets whole rows that begin before T; of the new plan's results only those with start > T count."""
    split = find_split_time(old)
    (r0, s0), (r1, s1) = old.rows(), new.rows()
    whole_r, whole_s = ([row for row in rows if row.start < split] for rows in (r1, s1))
    out = list(join(r0 + whole_r, s0 + whole_s))
    out += [result for result in join(keep_after(r1, split), keep_after(s1, split), s_first=True) if result[1] > split]
    return sorted(out)
