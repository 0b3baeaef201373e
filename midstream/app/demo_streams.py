"""The streams of the demo on Spark: what a fleet of short-lived containers tells, and an attack half-way.

Four streams name the container that they come from: logins and alerts also name an account, flows and lookups an
address. The join looks for a login and an alert of one account beside a flow and a lookup of one address, all in one
container within two seconds::

              quiet                                attack
    accounts  thousands: logins rarely meet        a few: every login meets many alerts
              alerts, so (l a) is a good start     of its container, so (l a) explodes
    addresses a few: flows meet many lookups       thousands: flows rarely meet lookups,
                                                   so (f q) is a good start

So a plan that begins with (l a) is right before the flip and wrong after it. Addresses scatter one window before
accounts gather: otherwise the moment between would match everything with everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import parquet

WINDOW_SECONDS = 2
#: How late rows may come; a few do come almost that late.
DELAY_SECONDS = 1
#: The event time that a batch has rows of.
BATCH_SECONDS = 10
TEXT = f"""\
SELECT l.id AS login, a.id AS alert, f.id AS flow, q.id AS lookup
FROM logins  [RANGE {WINDOW_SECONDS} SECONDS] l,
     alerts  [RANGE {WINDOW_SECONDS} SECONDS] a,
     flows   [RANGE {WINDOW_SECONDS} SECONDS] f,
     lookups [RANGE {WINDOW_SECONDS} SECONDS] q
WHERE l.container = a.container AND a.container = f.container AND f.container = q.container
  AND l.account = a.account AND f.address = q.address"""
#: The same join in plain SQL over everything that came; what it is compared with.
BATCH_SQL = f"""\
SELECT login, alert, flow, lookup, greatest(la_last, fq_last) AS valid_from,
       least(la_first, fq_first) + INTERVAL {WINDOW_SECONDS} SECONDS AS valid_to
FROM (SELECT l.container, l.id AS login, a.id AS alert, least(l.ts, a.ts) AS la_first, greatest(l.ts, a.ts) AS la_last
      FROM logins l JOIN alerts a ON l.container = a.container AND l.account = a.account
       AND a.ts BETWEEN l.ts - INTERVAL {WINDOW_SECONDS} SECONDS AND l.ts + INTERVAL {WINDOW_SECONDS} SECONDS) la
JOIN (SELECT f.container, f.id AS flow, q.id AS lookup, least(f.ts, q.ts) AS fq_first, greatest(f.ts, q.ts) AS fq_last
      FROM flows f JOIN lookups q ON f.container = q.container AND f.address = q.address
       AND q.ts BETWEEN f.ts - INTERVAL {WINDOW_SECONDS} SECONDS AND f.ts + INTERVAL {WINDOW_SECONDS} SECONDS) fq
ON la.container = fq.container
WHERE greatest(la_last, fq_last) <= least(la_first, fq_first) + INTERVAL {WINDOW_SECONDS} SECONDS"""
OLD_PLAN = "(((l a) f) q)"
NEW_PLAN = "(((f q) a) l)"

_START = np.datetime64("2026-01-05T03:00:00", "us")
_SECOND = 1_000_000
_KEYS = {"logins": "account", "alerts": "account", "flows": "address", "lookups": "address"}
_FEW, _MANY = 2, 4_000
#: How many rows of a stream a container has within a window.
_DENSITY = 9.0
_LIFE_SECONDS = 2 * WINDOW_SECONDS
_STRAGGLERS = 0.01

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Story:
    """How long each part is, in batches, and how many rows a batch has of each stream.

    The command for a new plan is given after the suffering batches; the batch that runs by then still has the old one.
    """

    rows: int = 80_000
    quiet: int = 5
    suffering: int = 4
    recovered: int = 5
    seed: int = 42

    @property
    def batches(self) -> int:
        return self.quiet + self.suffering + self.recovered

    @property
    def total(self) -> int:
        """The rows of all streams."""
        return self.rows * self.batches * len(_KEYS)

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(_KEYS)


def write(story: Story, folder: Path) -> Iterator[int]:
    """Write every stream's rows as one Parquet file a batch; yields the rows written so far."""
    rng = np.random.default_rng(story.seed)
    written = 0
    for stream in _KEYS:
        (folder / stream).mkdir(parents=True)
        table = _table(story, stream, rng)
        for batch in range(story.batches):
            path = folder / stream / f"{batch:03}.parquet"
            part = table.slice(batch * story.rows, story.rows)
            parquet.write_table(part, path)
            # Spark takes files by the time at which they were written, and several may have been within one tick.
            os.utime(path, (1_767_582_000 + batch, 1_767_582_000 + batch))
            written += part.num_rows
            yield written


def _table(story: Story, stream: str, rng: np.random.Generator) -> pa.Table:
    """A stream's rows in the order in which they arrive."""
    count, seconds = story.rows * story.batches, story.batches * BATCH_SECONDS
    times = np.sort(rng.integers(0, seconds * _SECOND, count))
    containers = max(int(count / seconds * WINDOW_SECONDS / _DENSITY), 1)
    container = times * containers // (_LIFE_SECONDS * _SECOND) + rng.integers(0, containers, count)
    flip = story.quiet * BATCH_SECONDS * _SECOND
    is_account = _KEYS[stream] == "account"
    is_concentrated = times >= flip if is_account else times < flip - WINDOW_SECONDS * _SECOND
    values = np.where(is_concentrated, rng.integers(0, _FEW, count), rng.integers(0, _MANY, count))
    order = _arrival(times, rng)
    return pa.table(
        {
            "ts": pa.array((_START + times.astype("timedelta64[us]"))[order], pa.timestamp("us", "UTC")),
            "id": np.arange(count)[order],
            "container": container[order],
            _KEYS[stream]: values[order],
        }
    )


def _arrival(times: Integers, rng: np.random.Generator) -> Integers:
    """The order in which rows arrive: by event time, but a few come later, within what is allowed."""
    waits = np.where(
        rng.random(len(times)) < _STRAGGLERS, rng.integers(0, DELAY_SECONDS * _SECOND * 9 // 10, len(times)), 0
    )
    return np.argsort(times + waits, kind="stable")
