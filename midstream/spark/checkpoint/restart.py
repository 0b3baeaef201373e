"""Refusing a restart as soon as its query starts, even if there are no new rows.

Cells compare what their ledgers say with the join in every batch that loads them, but Spark runs no batch on a restart
before a source has something new. With a control folder a file in it makes a batch. Without one, the driver reads a
ledger out of the checkpoint, as the query starts, and compares it as a cell would. All cells write their ledgers in
every batch, so one of them tells for all. Only the state of the first partition is loaded for it.

This check only reports a refusal earlier. If the driver cannot read the checkpoint, the cells decide alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from midstream.errors import SparkError
from midstream.spark.checkpoint.store import LEDGER, PARCELS, open_ledger
from midstream.spark.routing.cell_numbers import spark_hash
from midstream.spark.spec import JoinSpec

#: A ledger with the number that stands for its cell.
StoredLedger = tuple[int, bytes]


def read_ledgers(session: Any, checkpoint: str) -> list[StoredLedger]:
    """One ledger of each join in a checkpoint, as of its last complete batch."""
    operators = session.read.format("state-metadata").load(checkpoint).select("operatorId", "operatorProperties")
    ledgers = []
    for operator in sorted({row.operatorId for row in operators.collect() if _is_join(row.operatorProperties)}):
        state = session.read.format("statestore").option("operatorId", operator).option("stateVarName", LEDGER)
        # Partitions are read one after the other until there is a row, and the first has cells.
        found = state.load(checkpoint).selectExpr("key.cell", "value.ledger").take(1)
        ledgers += [(int(row.cell), bytes(row.ledger)) for row in found]
    return ledgers


def _is_join(properties: str | None) -> bool:
    """Whether a stateful operator is that of a join, by its state variables."""
    told = json.loads(properties or "{}").get("stateVariables", [])
    return {LEDGER, PARCELS} <= {variable.get("stateName") for variable in told}


def find_refusal(ledgers: Iterable[StoredLedger], spec: JoinSpec) -> str | None:
    """Why none of the joins in a checkpoint can go on as this one; None if one can, or if there are none."""
    told = None
    for number, content in ledgers:
        try:
            open_ledger(content, spec, f"cell {spark_hash(number)} of {spec.cells}")
        except SparkError as problem:
            told = told or str(problem)
        else:
            return None
    return told
