"""The experiments on STAIRs at a small scale: their rows, and what is counted, which no load of the machine changes.

That each of them runs and is checked is tested with all others.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from midstream.lab.answers import Digest
from midstream.lab.definition import WrongAnswer
from midstream.lab.experiments.stairs_lanes import ADAPTIVE, EDDY, STAGED, Relations, costs_of, race, tree
from midstream.lab.experiments.stairs_reversed import make_relations


def whole(relations: Relations, name: str) -> pa.Table:
    return pa.concat_tables([batch[name] for batch in relations.pushes])


def partners(one: pa.Table, other: pa.Table, key: str) -> np.ndarray:
    """How many rows of another table each row finds."""
    keys, counts = np.unique(other[key].to_numpy(), return_counts=True)
    found = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    return np.array([found.get(value, 0) for value in one[key].to_pylist()])


def test_selectivities_change_places_half_way() -> None:
    relations = make_relations(1_000, 150, 3)
    r, s, t = (whole(relations, name) for name in "RST")
    for rows, many, few in ((slice(0, 500), (r, "a"), (t, "b")), (slice(500, 1_000), (t, "b"), (r, "a"))):
        assert set(partners(s, *many)[rows]) == {5}
        assert partners(s, *few)[rows].sum() == 500 / 50
    assert relations.answer.rows == 2 * 5 * 500 / 50
    assert all(sum(table.num_rows for table in batch.values()) == 150 for batch in relations.pushes)


def test_eddies_look_at_fewer_entries_than_any_plan() -> None:
    plans = ("((R S) T)", "(R (S T))")
    starts = [*((tree(plan), plan) for plan in plans), *((contender, plans[0]) for contender in ADAPTIVE)]
    costs = costs_of(race(make_relations(20_000, 2_000, 1), starts, 1, "test"))
    best = min(costs[tree(plan).name].visited for plan in plans)
    assert best > 1.2 * costs[STAGED.name].visited
    assert best > 1.2 * costs[EDDY.name].visited


def test_a_wrong_answer_ends_a_race() -> None:
    relations = make_relations(200, 100, 1)
    wrong = Relations(relations.query, relations.pushes, relations.answer + Digest(1, 1))
    with pytest.raises(WrongAnswer, match="STAIRs in lane 1 gives"):
        race(wrong, [(STAGED, "((R S) T)")], 1, "test")
