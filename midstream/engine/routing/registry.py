"""All policies. A new one is a file beside this one and an entry here."""

from __future__ import annotations

from midstream.engine.routing.content import Content
from midstream.engine.routing.cost import Cost
from midstream.engine.routing.cumulative import Cumulative
from midstream.engine.routing.fixed import Fixed
from midstream.engine.routing.lottery import Lottery
from midstream.engine.routing.policy import Policy
from midstream.engine.routing.rank import Rank
from midstream.errors import find_named

POLICIES: tuple[Policy, ...] = (Rank(), Cost(), Cumulative(), Lottery(), Content(), Fixed())


def find_policy(routing: str | Policy, call: str) -> Policy:
    """The policy that users call so; one that is given itself need not be among those that have a name.

    >>> find_policy("ranks", "engine")
    Traceback (most recent call last):
    midstream.errors.EngineError: engine: unknown routing 'ranks'; did you mean 'rank'? routings: rank, cost,
    cumulative, lottery, content, fixed
    """
    if isinstance(routing, Policy):
        return routing
    return find_named(routing, POLICIES, "routing", "routings", call)
