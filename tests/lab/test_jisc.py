"""The set-up of JISC's experiments."""

from __future__ import annotations

import pytest

from midstream.engine.joins.access import LoopPath
from midstream.lab.experiments.jisc_streams import Streams
from midstream.lab.race import MOVING_STATE, Lane

WINDOW = 60


@pytest.mark.parametrize("is_theta", [False, True])
def test_nested_loops_are_nested_loops_but_no_plan_has_a_cross_product(is_theta: bool) -> None:
    """A row has one partner in every other window on average, whatever the plan and the kind of join."""
    streams = Streams(3, WINDOW, 2 * WINDOW, WINDOW // 10, 1, is_theta)
    for plan in (streams.plan, streams.best_case, streams.worst_case):
        lane = Lane(MOVING_STATE, streams.query, streams.plan)
        for batch in streams.batches():
            lane.push(batch)
        lane.migrate(plan)
        paths = [node.path for node in lane.engine._pipeline.executor.joins() if node.path is not None]
        assert all(isinstance(path, LoopPath) for path in paths) == is_theta
        sizes = {state.name: state.rows for state in lane.engine.stats().states if state.kind == "join"}
        assert 0 < max(sizes.values()) < 5 * WINDOW, f"{plan}: {sizes}"
