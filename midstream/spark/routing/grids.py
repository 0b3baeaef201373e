"""Query, cells, rates, hot keys -> grids: how the cells are laid out for each branch of a query.

A query without set operations has one branch. With them, every branch has its own grid over the same cells, and a cell
runs all branches over the rows that each grid sends it.
"""

from __future__ import annotations

from dataclasses import dataclass

from midstream.cql.model import Query
from midstream.spark.routing.hot import HotKey, HotKeys, hot_keys_of
from midstream.spark.routing.shares import Rates, Shares, rates_of, shares_for


@dataclass(frozen=True)
class Grid:
    """The shares and hot keys of a branch, whose inputs have these numbers."""

    inputs: range
    shares: Shares
    hot_keys: tuple[HotKey, ...]


def grids_of(query: Query, cells: int, rates: Rates | None, hot_keys: HotKeys | None) -> tuple[Grid, ...]:
    """The grids of a query's branches, in their order."""
    weights = rates_of(query, rates)
    grids = []
    for branch, inputs in enumerate(query.branch_inputs):
        shares = shares_for(query, cells, rates, branch)
        grids.append(Grid(inputs, shares, hot_keys_of(query, shares, weights, hot_keys)))
    return tuple(grids)
