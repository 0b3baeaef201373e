"""A web shop as four streams: orders, and the payments, shipments and reviews that follow each of them.

Not every order gets that far, some are paid in parts or sent in several parcels, and what follows an order comes after
a random time: so a join over all four has both partners that never come and partners that come too late. The streams
end together, with the last order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.lab.workload import Workload

TEXT = """\
SELECT o.id, o.customer, p.amount, s.carrier, r.stars
FROM orders    [RANGE 60 SECONDS] o,
     payments  [RANGE 45 SECONDS] p,
     shipments [RANGE 30 SECONDS] s,
     reviews   [RANGE 30 SECONDS] r
WHERE o.id = p.order_id AND o.id = s.order_id AND o.id = r.order_id
  AND p.amount >= 10"""

_START = np.datetime64("2026-01-05T08:00:00", "us")
_CARRIERS = pa.array(["Albatross", "Bumblebee", "Caravan", "Dromedary", "Express Owl"])

Integers = npt.NDArray[np.int64]


def shop(orders: int = 100_000, rate: float = 1_000.0, seed: int = 0) -> Workload:
    """So many orders, `rate` a second, and everything that follows them, with event times as timestamps.

    >>> workload = shop(orders=1_000, seed=7)
    >>> workload.streams
    ('orders', 'payments', 'shipments', 'reviews')
    >>> workload.tables["payments"].schema.names
    ['ts', 'order_id', 'amount']
    """
    rng = np.random.default_rng(seed)
    ids = np.arange(orders, dtype=np.int64)
    placed = np.floor(ids * (1e6 / rate)).astype(np.int64)
    tables = {
        "orders": _in_order(placed, id=ids, customer=rng.integers(0, max(orders // 5, 1), orders)),
    }

    paid, paid_at = _follow(rng, ids, placed, counts=(0.1, 0.8, 0.1), seconds=8.0)
    cents = rng.lognormal(3.5, 1.0, len(paid)) * 100
    tables["payments"] = _in_order(paid_at, order_id=paid, amount=np.round(cents) / 100)

    sent, sent_at = _follow(rng, ids, placed, counts=(0.15, 0.65, 0.15, 0.05), seconds=12.0)
    carriers = _CARRIERS.take(pa.array(rng.integers(0, len(_CARRIERS), len(sent))))
    tables["shipments"] = _in_order(sent_at, order_id=sent, carrier=carriers)

    rated, rated_at = _follow(rng, ids, placed, counts=(0.6, 0.4), seconds=20.0)
    stars = rng.integers(1, 6, len(rated)).astype(np.int8)
    tables["reviews"] = _in_order(rated_at, order_id=rated, stars=stars)

    return Workload(TEXT, {name: table.schema for name, table in tables.items()}, tables, "ts")


def _follow(
    rng: np.random.Generator, ids: Integers, placed: Integers, *, counts: tuple[float, ...], seconds: float
) -> tuple[Integers, Integers]:
    """The order and the time of each event that follows an order: `counts[n]` is the share of orders with n of them."""
    events = rng.choice(len(counts), len(ids), p=counts)
    wait = rng.exponential(seconds * 1e6, int(events.sum())).astype(np.int64)
    order, at = np.repeat(ids, events), np.repeat(placed, events) + wait
    seen = at <= placed.max(initial=0)
    return order[seen], at[seen]


def _in_order(times: Integers, **columns: object) -> pa.Table:
    """A table with its event time first, sorted by it."""
    table = pa.table({"ts": pa.array(_START + times.astype("timedelta64[us]")), **columns})
    return table.take(pa.array(np.argsort(times, kind="stable")))
