"""Routers and gauges that change their mind on a handful of rows, for random tests of little input."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from midstream.engine.executors.eddy.stages import Stages
from midstream.engine.joins.gauge import Gauge
from midstream.engine.joins.idling import IdleJoins
from midstream.engine.joins.reviewing import Reviewer
from midstream.engine.routing.class_rates import ClassRates
from midstream.engine.routing.policies.content import Content
from midstream.engine.routing.policy import Field
from midstream.engine.routing.rates import MatchRates
from midstream.engine.routing.trees import TreeSearch


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Routers decide after the first rows, entries move as soon as one is paid for, and other edges cost nothing.

    Other orders than the plan's are taken, and rows told apart by their keys, even where that does not pay.

    An input that has no rows in two chunks is stalled. Whether it pays to look for partners is decided after a few
    checks, and again soon.
    """
    with (
        mock.patch.object(MatchRates, "least_sampled", 1),
        mock.patch.object(MatchRates, "stalled_after", 2),
        mock.patch.object(MatchRates, "most_patience", 1),
        mock.patch.object(Stages, "least_rows", 1),
        mock.patch.object(Stages, "overhead", 0.0),
        mock.patch.object(Stages, "trial", 2),
        mock.patch.object(TreeSearch, "price", 0.1),
        mock.patch.object(ClassRates, "needed", 4),
        mock.patch.object(Content, "worth", 2.0),
        mock.patch.object(Content, "clearly_better", 1.0),
        mock.patch.object(Field, "worth", 2.0),
        mock.patch.multiple(
            Gauge, least_checks=6, least_sampled=3, least_joined=1, call_cost=0, row_cost=1, wait_cost=0, margin=0.5
        ),
        mock.patch.object(Gauge, "first_pause", 1),
        mock.patch.object(Reviewer, "times_as_much", 0),
        mock.patch.object(IdleJoins, "first_patience", 1),
    ):
        yield
