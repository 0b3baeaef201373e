"""How a cell's engine begins when it is loaded: by the plan and the routing that ran last, or by new ones in the code.

A plan or a routing in the code counts once, when the code had another one before. From then on a cell goes on with what
it runs, which a command may have changed. On an executor that routes, a plan of the code is where the router begins: a
restart holds no cell to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from midstream.engine.executors.registry import find_executor
from midstream.engine.routing.choice import RoutingRecord
from midstream.spark.checkpoint.ledger import Ledger
from midstream.spark.spec import JoinSpec


@dataclass(frozen=True)
class Start:
    """The plan, or None for the default one, and the routing to go on with; None if the executor follows its plan."""

    plan: str | None
    routing: RoutingRecord | None


def choose_start(ledger: Ledger, spec: JoinSpec, cell: int) -> Start:
    """How the engine of a cell has to begin if it is loaded now. The ledger is told what the code says."""
    has_new_plan = spec.plan is not None and spec.plan != ledger.plan_in_code
    has_new_policy = spec.policy is not None and spec.policy != ledger.policy_in_code
    ledger.plan_in_code, ledger.policy_in_code = spec.plan, spec.policy
    plan = spec.plan if has_new_plan else ledger.plan or spec.plan
    kind = find_executor(spec.executor, "cell")
    if kind.default_routing is None:
        return Start(plan, None)
    record = RoutingRecord() if ledger.router is None else RoutingRecord.from_json(ledger.router)
    if record.executor != kind.name or has_new_plan or has_new_policy:
        record = RoutingRecord(kind.name, spec.policy, rates=record.rates)
    return Start(record.plan or plan, replace(record, cell=cell))
