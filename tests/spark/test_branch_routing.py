"""Set operations: every branch has its own grid over the cells, and each of its results is found in one of them."""

from __future__ import annotations

import pytest

import midstream as ms
from midstream.spark.routing.rules import routing_for

from .test_routing import agrees, data_for, lanes, make

KEYED = "SELECT o.id, p.n FROM o [W], p [W] WHERE o.id = p.id"
OTHER = "SELECT o.id, o.n FROM o [W], q [W] WHERE o.n = q.n"
UNION = make(f"{KEYED} UNION ALL {OTHER} UNION ALL SELECT id, n FROM o [W]")


@pytest.mark.parametrize("cells", [1, 2, 4, 6])
def test_results_of_every_branch_are_found_once(cells: int) -> None:
    for hot in (None, {"o.id": [1, 2]}, {"id": [3], "n": [1, 4]}):
        for rates in (None, {"p": 7}, {"o_2": 5, "q": 0.1}):
            agrees(UNION, data_for(UNION, 60, keys=4), cells, hot_keys=hot, rates=rates)


def test_branches_that_route_alike_share_lanes() -> None:
    alike = make(f"{KEYED} UNION ALL SELECT o.n, q.n FROM o [W], q [W] WHERE o.id = q.id")
    assert lanes(routing_for(alike, 4)) == [("o", ["o", "o_2"]), ("p", ["p"]), ("q", ["q"])]
    hot = routing_for(alike, 4, hot_keys={"p.id": [1]})
    assert lanes(hot) == [("o as o", ["o"]), ("p", ["p"]), ("o as o_2", ["o_2"]), ("q", ["q"])]
    assert lanes(routing_for(UNION, 4))[0] == ("o as o", ["o"])
    assert lanes(routing_for(UNION, 1)) == [("o", ["o", "o_2", "o_3"]), ("p", ["p"]), ("q", ["q"])]


def test_grids_are_explained_by_branch() -> None:
    text = routing_for(UNION, 4, rates={"q": 9}, hot_keys={"o.id": [1]}).explain()
    assert text.splitlines() == [
        "4 cells",
        "",
        "branch  dimension                                          share",
        "o, p    o.id = p.id (int64)                                    4",
        "o_2, q  CAST(o_2.n AS int64) = CAST(q.n AS int64) (int64)      4",
        "o_3     rows of o_3                                            4",
        "",
        "stream  as   copies",
        "o       o         1",
        "p       p         1",
        "o       o_2       1",
        "q       q         1",
        "o       o_3       1",
        "",
        "branch  hot key              spread  values",
        "o, p    o.id = p.id (int64)  o       1",
    ]


def test_rounds_are_explained_by_branch() -> None:
    groups = "SELECT o.n, count(*) FROM o [W], q [W] WHERE o.id = q.id GROUP BY o.n"
    text = f"{KEYED} EXCEPT {groups} UNION SELECT id, n FROM p [W] EXCEPT SELECT count(*), 1 FROM q [W]"
    query = make(text.replace("[W]", "[RANGE 10 SECONDS]"))
    assert routing_for(query, 4).explain().partition("put together by")[2].splitlines()[1:] == [
        "group of o_2, q: o_2.n                     4 partitions",
        "nothing, because all of q_2 are one group  1 partition",
        "row                                        4 partitions",
    ]


def test_a_hot_key_may_be_of_several_branches() -> None:
    """A name is that of one key in each of them."""
    grids = routing_for(UNION, 4, hot_keys={"O.id": [1], "n": [2]}).grids
    assert [[hot.values for hot in grid.hot_keys] for grid in grids] == [[("1",)], [("2",)], []]
    both = make(f"{KEYED} UNION ALL SELECT o.n, q.n FROM o [W], q [W] WHERE o.id = q.n")
    grids = routing_for(both, 4, hot_keys={"id": [1]}).grids
    assert [[hot.values for hot in grid.hot_keys] for grid in grids] == [[("1",)], [("1",)]]
    with pytest.raises(ms.QueryError, match=r"'o_3\.id' is not a join key of the query; join keys: o\.id, p\.id"):
        routing_for(UNION, 4, hot_keys={"o_3.id": [1]})


def test_a_cell_s_query_has_the_branches_and_plans_of_the_query() -> None:
    query = make("SELECT id FROM o [RANGE 10 SECONDS] EXCEPT SELECT id FROM p [RANGE 10 SECONDS] WHERE n > 3")
    cell = routing_for(query, 4).cell_query
    assert cell.combination == query.combination
    assert [relation.filters for part in cell.parts for relation in part.inputs] == [(), ()]
    assert cell.output_schema.names == ["branch", "part_0", "valid_from", "valid_to"]
    assert str(ms.Engine(cell, plan="o minus p").plan) == "(o minus p)"
