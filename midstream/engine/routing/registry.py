"""All policies. A new one is a file in `policies` and an entry here."""

from __future__ import annotations

from midstream.engine.routing.policies.content import Content
from midstream.engine.routing.policies.cost import Cost
from midstream.engine.routing.policies.cumulative import Cumulative
from midstream.engine.routing.policies.fixed import Fixed
from midstream.engine.routing.policies.lottery import Lottery
from midstream.engine.routing.policies.rank import Rank
from midstream.engine.routing.policy import Policy
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
