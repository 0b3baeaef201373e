"""What flows through a query: rates, windows and match rates, and the sizes that follow from them.

A state is known by its set of inputs. An entry is in it as long as all of its rows are in their windows, and any rows
that are in their windows at one moment may form an entry. So with `n` rows in each window and a share `m` of all
combinations that match,

    entries of a state           n_1 * n_2 * ... * m
    new entries a second         the sum over the inputs of: its rate, times the others' rows, times m

For k inputs of one window W this is ``k`` times the entries, divided by W: an entry of k rows lives for W / k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from midstream.errors import EngineError

Inputs = frozenset[int]


@dataclass(frozen=True)
class InputLoad:
    """One input: rows a second that enter its window, and for how many seconds of event time a row stays.

    Rows of UNBOUNDED windows and static tables stay for ever; `held` says how many there are.

    >>> InputLoad(rate=100.0, lasts=60.0).rows
    6000.0
    >>> InputLoad.static(50).rows
    50.0
    """

    rate: float
    lasts: float
    held: float = 0.0

    @classmethod
    def static(cls, rows: float) -> InputLoad:
        """A table that never changes."""
        return cls(0.0, math.inf, float(rows))

    @property
    def is_static(self) -> bool:
        return self.rate == 0.0 and math.isinf(self.lasts)

    @property
    def rows(self) -> float:
        """The rows in the window, once it is full."""
        return self.held if math.isinf(self.lasts) else self.rate * self.lasts

    def rows_after(self, seconds: float) -> float:
        """The rows in the window so long after it was empty; a static table is there from the start."""
        return self.held if self.is_static else self.rate * min(seconds, self.lasts)


@dataclass(frozen=True)
class Load:
    """The inputs in the order of FROM, and by state the share of the combinations of rows in their windows that match.

    `looked_at` is, by join, the share of the pairs of its two sides' entries that it has to look at: all of them with
    nested loops, which is the default, about as many as match with an index.

    >>> load = Load((InputLoad(10.0, 60.0), InputLoad(20.0, 60.0)), {frozenset({0, 1}): 0.01})
    >>> load.rows({0, 1}), load.rate({0, 1})
    (7200.0, 240.0)
    """

    inputs: tuple[InputLoad, ...]
    matching: Mapping[Inputs, float]
    looked_at: Mapping[Inputs, float] = field(default_factory=dict)

    def match_rate(self, inputs: Set[int]) -> float:
        """The share of combinations that match; any row of a single input does."""
        if len(inputs) == 1:
            return 1.0
        found = self.matching.get(frozenset(inputs))
        if found is None:
            known = "; ".join(str(sorted(members)) for members in self.matching) or "none"
            raise EngineError(f"load: no match rate for the inputs {sorted(inputs)}; known: {known}")
        return found

    def selectivity(self, left: Set[int], right: Set[int]) -> float:
        """The share of pairs of the entries of two states that a join of them keeps.

        >>> load = Load((InputLoad(1.0, 1.0),) * 3, {frozenset({0, 1}): 0.5, frozenset({0, 1, 2}): 0.1})
        >>> load.selectivity({0, 1}, {2})
        0.2
        """
        below = self.match_rate(left) * self.match_rate(right)
        return self.match_rate(left | right) / below if below else 0.0

    def rows(self, inputs: Set[int]) -> float:
        """The rows of a window, or the entries of a join state."""
        return math.prod(self.inputs[number].rows for number in inputs) * self.match_rate(inputs)

    def rate(self, inputs: Set[int]) -> float:
        """Rows or entries a second that are new."""
        rows = {number: self.inputs[number].rows for number in inputs}
        return self._rate(rows) * self.match_rate(inputs)

    def rows_from_empty(self, inputs: Set[int], seconds: float) -> float:
        """New entries in so many seconds if the streams' windows are empty at first.

        In a window W of k equal inputs this is a k-th of what a full state makes, and all of it is still there.

        >>> load = Load((InputLoad(10.0, 60.0), InputLoad(20.0, 60.0)), {frozenset({0, 1}): 0.01})
        >>> round(load.rows_from_empty({0, 1}, 60.0), 6)
        7200.0
        """
        # Between two moments at which a window becomes full the rate is a polynomial, which these points integrate
        # without error.
        points, weights = np.polynomial.legendre.leggauss(max(1, (len(inputs) + 1) // 2))
        full = {self.inputs[number].lasts for number in inputs}
        moments = sorted({0.0, seconds, *(moment for moment in full if moment < seconds)})
        made = 0.0
        for begin, end in pairwise(moments):
            half = (end - begin) / 2
            for point, weight in zip(points.tolist(), weights.tolist(), strict=True):
                at = begin + half * (1 + point)
                made += weight * half * self._rate({number: self.inputs[number].rows_after(at) for number in inputs})
        return made * self.match_rate(inputs)

    def _rate(self, rows: Mapping[int, float]) -> float:
        """Combinations a second, matching or not, at so many rows in each window."""
        return sum(
            self.inputs[number].rate * math.prod(held for other, held in rows.items() if other != number)
            for number in rows
        )

    def longest(self) -> float:
        """Seconds of event time after which no row of a stream that is there now is left."""
        return max((input_load.lasts for input_load in self.inputs if not input_load.is_static), default=0.0)
