"""Data -> the load that they put on a pair of plans, and what computing states costs here.

A sample, the oldest rows, runs under the old plan. At growing sizes the entries of its states are counted, and the
states of the new plan are computed and timed:

    rates          rows that entered each window, by the event time that the sample spans
    match rates    entries of a state, by the combinations of the rows that were in the windows
    costs          seconds, by what was touched: entries probed, pairs looked at, entries stored

The sample ends early where the next step would make too many entries. A window longer than the sample is taken to fill
at the rate seen so far, and to match as what was seen of it does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.adapt.load import InputLoad, Inputs, Load
from midstream.adapt.sample import Moment, Sample
from midstream.adapt.strategy_costs import Costs
from midstream.cql.model import Query
from midstream.errors import EngineError
from midstream.plan.tree import Plan

SAMPLE_ROWS = 200_000
SAMPLE_ENTRIES = 2_000_000
_FIRST_ROWS = 256
_STEPS = 8


@dataclass(frozen=True)
class Measured:
    """What a sample of `rows` rows, of `rows_given`, over `seconds` of event time showed.

    `push_rate` is the rows a second that are pushed, before any filter; `is_cut` says that the sample ended early
    because the states grew too large.
    """

    load: Load
    costs: Costs
    rows: int
    rows_given: int
    seconds: float
    push_rate: float
    is_cut: bool


def measure(
    query: Query,
    old: Plan,
    new: Plan,
    data: Mapping[str, pa.Table],
    *,
    rows: int = SAMPLE_ROWS,
    entries: int = SAMPLE_ENTRIES,
) -> Measured:
    """Measure the load on two plans by a sample of at most `rows` rows that makes at most about `entries` at a time.

    `data` has a table for each stream and each static table of the query. What is measured are joins: operators below
    them are left out.

    >>> import midstream as ms
    >>> from midstream.lab.generate import common_key
    >>> from midstream.plan import parse_plan
    >>> work = common_key(streams=3, rows=4_000, keys=50, rate=100.0, window=10.0)
    >>> query = ms.query(work.text, work.schemas, work.event_time)
    >>> old, new = parse_plan("(A B) C", query.aliases), parse_plan("A (B C)", query.aliases)
    >>> found = measure(query, old, new, work.tables)
    >>> found.rows, round(found.load.inputs[0].rate), round(found.load.match_rate({1, 2}), 2)
    (12000, 100, 0.02)
    """
    if query.parts:
        raise EngineError("measure: the query combines several joins by set operations; measure them one by one")
    old, new = old.without_operators(), new.without_operators()
    sample = Sample(query, old, data)
    moments: list[Moment] = []
    steps = _choose_sizes(min(rows, sample.rows_given))
    is_cut = False
    for step in steps:
        if moments and _expect_entries(_measure_load(sample, moments), sample, step) > entries:
            is_cut = True
            break
        sample.push_up_to(step)
        moments.append(sample.moment(new))
    pushed = sum(sample.pushed.values())
    return Measured(
        load=_measure_load(sample, moments),
        costs=_measure_costs(moments),
        rows=pushed,
        rows_given=sample.rows_given,
        seconds=sample.seconds,
        push_rate=pushed / sample.seconds,
        is_cut=is_cut,
    )


def _choose_sizes(rows: int) -> list[int]:
    """Sizes of the sample at which states are counted: doubling up to a quarter, then by eighths.

    >>> _choose_sizes(4_096)
    [256, 512, 1024, 1536, 2048, 2560, 3072, 3584, 4096]
    """
    sizes = {rows * step // _STEPS for step in range(2, _STEPS + 1)}
    size = _FIRST_ROWS
    while size < rows / 4:
        sizes.add(size)
        size *= 2
    return sorted(size for size in sizes if size > 0)


def _measure_load(sample: Sample, moments: Sequence[Moment]) -> Load:
    inputs = tuple(_measure_input_load(sample, number, moments[-1]) for number in range(len(sample.query.inputs)))
    found: defaultdict[Inputs, float] = defaultdict(float)
    possible: defaultdict[Inputs, float] = defaultdict(float)
    visited: defaultdict[Inputs, float] = defaultdict(float)
    pairs: defaultdict[Inputs, float] = defaultdict(float)
    for moment in moments:
        computed = {state: counts.entries for state, counts in moment.computed.items()}
        for state, entries in {**moment.held, **computed}.items():
            found[state] += entries
            possible[state] += math.prod(moment.rows[number] for number in state)
        for state, counts in moment.computed.items():
            visited[state] += counts.visited
            pairs[state] += counts.sides[0] * counts.sides[1]
    matching = {state: entries / max(possible[state], 1.0) for state, entries in found.items()}
    everything = frozenset(range(len(inputs)))
    combinations = Load(inputs, {everything: 1.0}).rows_from_empty(everything, sample.seconds)
    matching[everything] = sample.results / max(combinations, 1.0)
    return Load(inputs, matching, {state: count / max(pairs[state], 1.0) for state, count in visited.items()})


def _measure_input_load(sample: Sample, number: int, moment: Moment) -> InputLoad:
    relation = sample.query.inputs[number]
    if relation.is_static:
        return InputLoad.static(moment.rows[number])
    rate = sample.entered[number] / sample.seconds
    lasts = relation.window.seconds(max(sample.pushed[relation.source], 1) / sample.seconds)
    assert lasts is not None, "the rate is known"
    if relation.window.never_ends:
        return InputLoad(rate, lasts, rate * sample.seconds_at(sample.rows_given))
    return InputLoad(rate, lasts + find_lag(sample.query) / 1e6 if relation.window.ends_by_time else lasts)


def find_lag(query: Query) -> int:
    """Microseconds by which the watermark stays behind the rows, for which they stay longer than their window."""
    return max(query.delays.values(), default=0)


def _expect_entries(load: Load, sample: Sample, rows: int) -> float:
    """The entries that the states would have at so many rows, and the results on the way there."""
    seconds = sample.seconds_at(rows)
    everything = frozenset(range(len(load.inputs)))
    results = load.rows_from_empty(everything, seconds) - load.rows_from_empty(everything, sample.seconds)
    return results + sum(
        share * math.prod(load.inputs[number].rows_after(seconds) for number in state)
        for state, share in load.matching.items()
        if state != everything
    )


def _measure_costs(moments: Sequence[Moment]) -> Costs:
    """One cost for all that is touched, from the larger moments; what the smallest took is there in any case."""
    work = np.array([float(sum(counts.work for counts in moment.computed.values())) for moment in moments])
    seconds = np.array([moment.seconds for moment in moments])
    start = float(seconds.min())
    large = (work >= work.max() / 2) & (work > 0)
    unit = float(np.median((seconds[large] - start) / work[large])) if large.any() else 0.0
    return Costs(compare=unit, store=unit, probe=unit, start=start)
