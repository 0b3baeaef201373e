"""The pause of Moving State: measured at a transition, and estimated by the paper's equations 1 to 3.

A transition can be made again and again between two pushes, to the new plan and back: each time the states that the
new plan lacks are computed from the base windows. So one engine gives many measurements of the same pause. What a
comparison and an entry cost on this machine is taken from other joins than those of the experiment: three streams,
where only B C has to be computed, once with a predicate that few pairs pass and once with one that half of them pass.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property

import midstream as ms
from midstream.adapt.load import InputLoad, Load
from midstream.adapt.strategy_costs import Costs, moving_state_length
from midstream.lab.answers import digest_of, require_same
from midstream.lab.experiments.zhu_streams import (
    LEFT_DEEP,
    MICROSECONDS,
    RIGHT_DEEP,
    SET_1,
    Setting,
    Streams,
    make_streams,
)
from midstream.migrate.strategies.moving_state import MovingState
from midstream.plan import parse_plan

_FACTORS = (0.02, 0.5)
_FEW = 2.0
_TIMES = 9
_STEPS_PER_WINDOW = 20


class Pause:
    """An engine that has run the old plan for a while, ready for transitions."""

    def __init__(self, rows: Streams, at: float, old: str = LEFT_DEEP):
        self._rows, self._at, self._old = rows, at, old
        self._step = at / _STEPS_PER_WINDOW
        self._slices = list(rows.slices(self._step))
        self._engine = ms.Engine(rows.query, plan=old, demand="off")
        for until, batch in self._slices[:_STEPS_PER_WINDOW]:
            self._engine.push(batch, watermark=round(until * MICROSECONDS))

    def seconds(self, new: str = RIGHT_DEEP, times: int = 7) -> float:
        """How long the transition to the new plan takes at least; the old plan runs again afterwards."""
        measured = []
        for _ in range(times):
            began = time.process_time()
            self._engine.migrate(new, MovingState.name)
            measured.append(time.process_time() - began)
            self._engine.migrate(self._old, MovingState.name)
        return min(measured)

    def check(self, new: str, seconds: float, where: str) -> None:
        """Go on by the new plan and compare what comes out with DuckDB's answer."""
        self._engine.migrate(new, MovingState.name)
        tables, last = [], self._at
        for until, batch in self._slices[_STEPS_PER_WINDOW:]:
            if last >= self._at + seconds:
                break
            tables.append(self._engine.push(batch, watermark=round(until * MICROSECONDS)))
            last = until
        require_same({"Moving State": digest_of(tables)}, self._rows.answer(self._at, last), where)


class Machine:
    """What Moving State costs on this machine, found with so many rows of two streams."""

    def __init__(self, seed: int, rows: int = 1_000):
        self._seed = seed
        self._rows = rows

    @cached_property
    def costs(self) -> Costs:
        """T_j and T_s, and what a transition takes that has next to nothing to compute."""
        few = SET_1.faster(_FEW / SET_1.rates[0])
        start = Pause(make_streams(few, few.window, self._seed), few.window).seconds(times=_TIMES)
        low, high = _FACTORS
        rare, frequent = (max(0.0, self._pause(factor) - start) / self._rows**2 for factor in _FACTORS)
        store = max(0.0, frequent - rare) / (high - low)
        return Costs(compare=max(0.0, rare - low * store), store=store, start=start)

    def _pause(self, factor: float) -> float:
        """The pause before A (B C) after (A B) C, with many rows of B and C and next to none of A."""
        gap = SET_1.window / self._rows
        setting = replace(SET_1, gaps=(SET_1.window / 2, gap, gap), factors=(0.0, factor))
        found = Pause(make_streams(setting, setting.window, self._seed, "ABC"), setting.window, "((A B) C)")
        return found.seconds("(A (B C))", times=_TIMES)


def estimate_pause(setting: Setting, costs: Costs, new: str = RIGHT_DEEP, as_printed: bool = False) -> float:
    """T_MS by equation 3, in seconds; `as_printed` takes the sizes of states as equation 8 has them."""
    ab, bc, cd = setting.factors
    shares = {(0, 1): ab, (1, 2): bc, (2, 3): cd, (0, 1, 2): ab * bc, (1, 2, 3): bc * cd, (0, 1, 2, 3): ab * bc * cd}
    load = Load(
        tuple(InputLoad(rate, setting.window) for rate in setting.rates),
        {frozenset(inputs): share for inputs, share in shares.items()},
    )
    old_plan, new_plan = (parse_plan(text, "ABCD") for text in (LEFT_DEEP, new))
    return moving_state_length(old_plan, new_plan, load, costs, as_printed=as_printed).seconds
