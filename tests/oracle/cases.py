"""`make_case(seed)`: a random query, input, and plans for it, the same every time."""

from __future__ import annotations

import random
import shlex
from typing import Any

from .accept import accept
from .clocks import with_clocks
from .disguise import disguise_case
from .feed import draw_feed, draw_tables
from .plans import Estimate, draw_plans, estimate
from .queries import Draft, Shape, draw_query
from .spec import Case

SMALL = (15, 25, 40, 60, 90)
BIG = (200, 500, 1000, 2000)
MANY_RESULTS = 4_000.0
FEW_RESULTS = 5.0
FEW_ROWS = 6
REDRAWS = 5
LARGE_STATE = 20_000.0


def make_case(seed: int, **shape: Any) -> Case:
    """The case of a seed. Keywords fix parts of its shape; see `Shape`."""
    wanted = Shape(**shape)
    rng = random.Random(f"midstream {seed}")
    big = rng.random() < 0.03 if wanted.big is None else wanted.big
    total = wanted.rows or rng.choice(BIG if big else SMALL)
    for _ in range(REDRAWS):
        state = rng.getrandbits(64)
        while True:
            case, sizes, results = _attempt(seed, wanted, random.Random(state), total, big)
            if total <= FEW_ROWS or results <= MANY_RESULTS * (4 if big else 1):
                break
            total = total * 2 // 3
        if results >= FEW_RESULTS:
            break
    plans = draw_plans(case, sizes, rng, count=5, limit=LARGE_STATE * (10 if big else 1))
    return with_clocks(case.with_plans(plans, _options(shape)), rng)


def _options(shape: dict[str, Any]) -> str:
    """The shape as options of the command line."""
    flags = [f" --{name.replace('_', '-')}" for name, value in shape.items() if value is True]
    values = [f" --{name} {shlex.quote(str(value))}" for name, value in shape.items() if not isinstance(value, bool)]
    return "".join(values + flags)


def _attempt(seed: int, wanted: Shape, rng: random.Random, total: int, big: bool) -> tuple[Case, Estimate, float]:
    """A case with that many rows, and about how many results it has."""
    draft = draw_query(rng, wanted, big)
    draw_tables(draft, rng, total // max(1, len(draft.inputs)), big)
    feed = draw_feed(draft, rng, wanted, total, big)
    case = _assemble(seed, draft).with_feed(feed.pushes, feed.free, feed.max_jump)
    case = disguise_case(case, draft.spelling)
    acceptance = accept(case)
    sizes = estimate(case, acceptance, rng)
    whole = frozenset(range(len(case.inputs)))
    return case, sizes, sizes.size(whole)


def _assemble(seed: int, draft: Draft) -> Case:
    time_types = [source.schema.field(source.event_time).type for source in draft.sources.values() if source.event_time]
    return Case(
        seed=seed,
        kind=draft.kind,
        text=draft.text,
        sources=draft.sources,
        inputs=tuple(draft.inputs),
        predicates=tuple(draft.predicates),
        outputs=tuple(draft.outputs),
        pushes=(),
        plans=(),
        zone=draft.zone,
        time_is_int=str(time_types[0]) == "int64",
        free=False,
    )
