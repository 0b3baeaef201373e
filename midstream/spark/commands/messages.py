"""Commands: what somebody outside tells a running join, as data.

A command is a small JSON file in a folder that is one more source of the streaming query. So it is in Spark's offset
log, is replayed with a batch that failed, and takes effect exactly once.

The first batch of a new checkpoint reads all files that the folder has, those too that were meant for an earlier
checkpoint and taken there. It obeys none of them: commands count from the second batch on. Whoever gave one too early
is told so.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import pyarrow as pa

from midstream.errors import EngineError, PlanError
from midstream.spark.parcels.packing import Mapper, call_cells, pack_rows
from midstream.spark.task import current_batch, settle

#: The lane of parcels that hold a command.
COMMAND_LANE = -3
#: A command for no cell. As a new file it makes Spark run a batch even without new rows, so every cell is called.
CHECK = json.dumps({"do": "check"})
_LONGEST_REASON = 160
#: A command has at most so many characters.
_LONGEST_COMMAND = 1 << 16
#: What an id may be. Answers are in files of that name.
_IDENTITY = re.compile(r"[0-9A-Za-z_-]{1,64}")
#: Who is answered about a file that has no id.
_NOBODY = "unknown"
#: The answer to commands that a checkpoint finds in its first batch.
TOO_EARLY = "the checkpoint is new and obeys commands from its second batch on; give this one again"


@dataclass(frozen=True)
class Command:
    """Change the plan of some cells, or of all if `cells` is None."""

    plan: str
    strategy: str | None = None
    cells: tuple[int, ...] | None = None
    identity: str = field(default_factory=lambda: f"{time.time_ns():020d}-{secrets.token_hex(4)}")

    def to_json(self) -> str:
        """What is written into the folder."""
        cells = None if self.cells is None else list(self.cells)
        return json.dumps(
            {"id": self.identity, "do": "migrate", "plan": self.plan, "strategy": self.strategy, "cells": cells}
        )

    @classmethod
    def from_json(cls, text: str) -> Command:
        """What `to_json` wrote; a ValueError that says what is wrong with anything else."""
        if len(text) > _LONGEST_COMMAND:
            raise ValueError(f"it has {len(text):,} characters, and a command at most {_LONGEST_COMMAND:,}")
        told = _read(text)
        if told is None:
            raise ValueError("it is not JSON")
        if not isinstance(told, dict) or told.get("do") != "migrate":
            raise ValueError('it is not {"do": "migrate", ...}')
        plan, strategy, cells = told.get("plan"), told.get("strategy"), told.get("cells")
        if not isinstance(plan, str):
            raise ValueError("it has no plan")
        if not (strategy is None or isinstance(strategy, str)):
            raise ValueError("its strategy is not a text")
        if not (cells is None or (isinstance(cells, list) and all(type(cell) is int for cell in cells))):
            raise ValueError("its cells are not a list of numbers")
        unknown = sorted(told.keys() - {"do", "plan", "strategy", "cells", "id"})
        if unknown:
            raise ValueError(f"it has {unknown[0]!r}, which no command has; a migration has plan, strategy and cells")
        identity = told.get("id")
        if not is_identity(identity):
            raise ValueError("it has no id of 1 to 64 letters, digits, - and _")
        return cls(plan, strategy, None if cells is None else tuple(cells), identity)


def is_identity(value: object) -> TypeGuard[str]:
    """Whether this may be a command's id; whoever writes a file of that name asks."""
    return isinstance(value, str) and _IDENTITY.fullmatch(value) is not None


def _read(text: str) -> Any:
    """JSON from outside; None if it is not JSON, or nested too deeply for it to be a command."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class AddressedCommand:
    """A command as it reaches a cell; `refusal` is the reason if no cell can obey it."""

    identity: str
    plan: str
    strategy: str | None
    refusal: str | None = None

    def to_bytes(self) -> bytes:
        return json.dumps([self.identity, self.plan, self.strategy, self.refusal]).encode()

    @classmethod
    def from_bytes(cls, parcel: bytes) -> AddressedCommand:
        return cls(*json.loads(parcel))


def address_command(text: str, cells: int, is_first_batch: bool = False) -> Iterator[tuple[int, AddressedCommand]]:
    """The cells that a command file is meant for, each with the command. Cell 0 answers what none can obey."""
    if text == CHECK:
        return
    try:
        command = Command.from_json(text)
    except ValueError as problem:
        yield 0, AddressedCommand(_identity_in(text), "", None, f"the command was not understood: {problem}")
        return
    chosen = range(cells) if command.cells is None else command.cells
    unknown = [cell for cell in chosen if not 0 <= cell < cells]
    refusal = f"there is no cell {unknown[0]}; cells: 0 to {cells - 1}" if unknown else None
    refusal = TOO_EARLY if is_first_batch else refusal
    for cell in chosen if refusal is None else [0]:
        yield cell, AddressedCommand(command.identity, command.plan, command.strategy, refusal)


def refuse_early(parcel: bytes) -> bytes:
    """An addressed command for a cell that has had no batch yet: also where a task does not tell which batch it is."""
    command = AddressedCommand.from_bytes(parcel)
    return replace(command, refusal=command.refusal or TOO_EARLY).to_bytes()


def _identity_in(text: str) -> str:
    told = _read(text) if len(text) <= _LONGEST_COMMAND else None
    identity = told.get("id") if isinstance(told, dict) else None
    return identity if is_identity(identity) else _NOBODY


def make_command_packer(cells: int) -> Mapper:
    """The function for `mapInArrow` that packs command files: a parcel for each cell that a command is meant for."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        yield from call_cells(cells)
        is_first = current_batch() == 0
        for batch in batches:
            found = [
                command
                for text in batch.column(0).to_pylist()
                for command in address_command(text or "", cells, is_first)
            ]
            if found:
                yield pack_rows([(cell, COMMAND_LANE, 0, 0, 0, command.to_bytes()) for cell, command in found])

    return pack


def obey(commands: Sequence[AddressedCommand], migrate: Callable[[str, str | None], object]) -> list[list[str]]:
    """Carry commands out in the order in which they were given. The answer to each is its id, and a reason if refused.

    An error that is no refusal goes through and fails the batch.
    """
    answers = []
    for command in sorted(commands, key=lambda command: command.identity):
        reason = command.refusal
        if reason is None:
            try:
                migrate(command.plan, command.strategy)
            except (EngineError, PlanError) as problem:
                reason = str(problem)
        answers.append([command.identity, "" if reason is None else _shorten(reason)])
    return answers


def _shorten(reason: str) -> str:
    """A reason cut to the length that fits into a report, with dots where it was cut."""
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 4].rsplit(" ", 1)[0] + " ..."
