"""One batch of one cell: on its host if there can be one, else in this worker.

A host whose engine is at the batch that the store is at is *in place* and gets the new rows only. Otherwise it is
loaded from the stored parcels first. A host that dies in between is started again within the same attempt.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from midstream.spark.hosts import pool
from midstream.spark.hosts.cell import Cell, Loading, Outcome
from midstream.spark.parcels.spool import Spool
from midstream.spark.spec import JoinSpec

_logger = logging.getLogger("midstream")
_ATTEMPTS = 3


@dataclass(frozen=True)
class Turn:
    """What a cell has to do in a batch, and the stamp of its last batch in the store.

    `stored` reads what to load, anew at each call; `meanwhile` is what the worker does while a host works.
    """

    spec: JoinSpec
    run: str | None
    cell: int
    stamp: str
    watermark: int
    parcels: Sequence[tuple[int, bytes]]
    commands: Sequence[bytes]
    stored: Callable[[], Loading]
    meanwhile: Callable[[], None]


@dataclass(frozen=True)
class TurnResult:
    """How a turn went; `place` is "host" (it was in place), "loaded" (a host was loaded) or "worker" (no host)."""

    outcome: Outcome
    stamp: str
    place: str
    loads: int


def take(turn: Turn) -> TurnResult:
    """Run the batch; the worker's own part of it is done exactly once."""
    next_stamp = secrets.token_hex(8)
    meanwhile = _once(turn.meanwhile)
    loads = 0
    for _ in range(_ATTEMPTS):
        host = None if turn.run is None else _reach_host(turn)
        if host is None:
            break
        try:
            with Spool() as spool, host:
                is_in_place = host.stamp() == turn.stamp
                if not is_in_place:
                    loads += 1
                    host.load(turn.spec, turn.stored(), turn.stamp)
                outcome = host.push(
                    turn.stamp, next_stamp, turn.watermark, turn.parcels, turn.commands, meanwhile, spool.put
                )
                place = "host" if is_in_place and not loads else "loaded"
                return TurnResult(_close_spool(outcome, spool), next_stamp, place, loads)
        except pool.HostLost as problem:
            _logger.warning("midstream: the host of cell %d is lost (%s); starting again", turn.cell, problem)
    cell = Cell(turn.spec)
    cell.load(turn.stored(), turn.stamp)
    with Spool() as spool:
        outcome = cell.push(turn.stamp, next_stamp, turn.watermark, turn.parcels, turn.commands, spool.put)
        meanwhile()
        return TurnResult(_close_spool(outcome, spool), next_stamp, "worker", loads + 1)


def _close_spool(outcome: Outcome, spool: Spool) -> Outcome:
    """The outcome with all results, as they go through Spark."""
    spool.put(outcome.results)
    return replace(outcome, results=spool.close())


def _reach_host(turn: Turn) -> pool.RemoteCell | None:
    assert turn.run is not None
    return pool.reach(pool.host_name(turn.run, turn.spec.operator, turn.cell), turn.spec.host_idle)


def _once(action: Callable[[], None]) -> Callable[[], None]:
    done: list[bool] = []

    def run() -> None:
        if not done:
            done.append(True)
            action()

    return run
