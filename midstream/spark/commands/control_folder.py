"""Control from outside: a folder that a running join reads commands from and whose driver writes its state to.

::

    PATH/commands/   one file per command, the source of the streaming query; nothing else may be in it
    PATH/status/     query.json (what runs), cells.json (each cell's last report), answers/ (one file per command)

Files are written under a hidden name, which Spark does not read, and renamed. Commands are never deleted: a batch that
is replayed reads them again.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pyarrow import fs

from midstream.errors import SparkError, shown
from midstream.plan import parse_plan
from midstream.spark.arguments import check_flag, check_migration
from midstream.spark.commands.messages import TOO_EARLY, Command
from midstream.spark.reports.totals import Progress

_SOURCE = re.compile(r"FileStreamSource\[(.*)/commands\]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
#: What Spark takes for parts of a pattern in the path of a source.
_PATTERN = re.compile(r"[*?\[\]{}\\]")
_FIRST_PROGRESS_SECONDS = 60.0


class ControlFolder:
    """Reading and writing below a control folder, on any file system that Arrow knows."""

    def __init__(self, path: str):
        self.path = path.rstrip("/")
        try:
            scheme, colon, rest = self.path.partition(":")
            if _SCHEME.match(self.path) and scheme != "file":
                # Nothing in it is encoded: so Spark takes paths, and so it shows them.
                self._files, root = fs.FileSystem.from_uri(f"{scheme}:{quote(rest)}")
            else:
                self._files = fs.LocalFileSystem()
                root = os.path.abspath("/" + rest.lstrip("/") if colon and scheme == "file" else self.path)
        except Exception as problem:
            raise SparkError(f"control: {path!r} is no folder that can be reached; {problem}") from problem
        self._root = root.rstrip("/")

    @property
    def commands(self) -> str:
        """The folder that Spark reads."""
        return f"{self.path}/commands"

    def make(self) -> None:
        """Make the folders that are missing; an error if Spark could not read them."""
        if found := _PATTERN.search(self.path):
            raise SparkError(
                f"control: {self.path!r} has {found.group()!r}, which Spark takes for a pattern; "
                "choose a folder without * ? [ ] { } and \\"
            )
        try:
            for name in ("commands", "status/answers"):
                self._files.create_dir(f"{self._root}/{name}", recursive=True)
        except OSError as problem:
            raise SparkError(f"control: the folder {self.path!r} cannot be made; {problem}") from problem

    def exists(self) -> bool:
        """Whether it was made for a query: a folder 'commands' alone may hold anything."""
        found = self._files.get_file_info([f"{self._root}/commands", f"{self._root}/status"])
        return all(info.type == fs.FileType.Directory for info in found)

    def write(self, folder: str, name: str, content: str) -> None:
        """Write a file so that it appears whole."""
        hidden, final = f"{self._root}/{folder}/.{name}", f"{self._root}/{folder}/{name}"
        try:
            with self._files.open_output_stream(hidden) as stream:
                stream.write(content.encode())
            self._files.move(hidden, final)
        except OSError as problem:
            raise SparkError(f"control: {final!r} cannot be written; {problem}") from problem

    def read(self, name: str) -> dict[str, Any] | None:
        """What a JSON file tells; None if it is not there, or was cut off when the machine went down."""
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as stream:
                told = json.loads(stream.read())
        except (FileNotFoundError, ValueError):
            return None
        return told if isinstance(told, dict) else None


@dataclass(frozen=True)
class CellStatus:
    """The status of a cell: its plan and, if it has migrated, how complete its states are."""

    plan: str
    strategy: str | None
    phase: str | None
    percent: float


class TooEarly(SparkError):
    """A command came in the first batch of a new checkpoint, which obeys none."""


class Control:
    """Talks to a running join through its control folder, from any thread or process. `control` makes it."""

    def __init__(self, folder: ControlFolder, query: Any | None = None):
        self._folder = folder
        self._query = query

    def __repr__(self) -> str:
        return f"<midstream.spark.Control of {self._folder.path!r}>"

    def migrate(
        self,
        plan: str,
        strategy: str | None = None,
        cells: int | list[int] | None = None,
        *,
        wait: bool | None = None,
        until_complete: bool = False,
        timeout: float = 600.0,
        on_progress: Callable[[dict[int, CellStatus]], None] | None = None,
    ) -> Command:
        """Have all cells, or some, change to a plan at the next trigger.

        It returns when these cells run the plan. If the query has ended, it returns at once, and they change when it is
        started again; with ``wait=True`` it waits for that too. With ``wait=False`` it does not wait. With
        `until_complete` it waits in any case, also until the states of the new plan miss nothing. Where these fill as
        they are probed, that takes new rows. Meanwhile `on_progress` is called with the status of the cells.

        If a cell refuses the command, that is an error with the reason. It keeps its plan; other cells may change.

        ::

            command = control.migrate("((p s) o)")
        """
        check_migration(plan, strategy, cells, timeout, on_progress)
        if wait is not None:
            check_flag("wait", wait)
        check_flag("until_complete", until_complete)
        known = self._folder.read("status/query.json")
        if known is not None:
            parse_plan(plan, tuple(known["aliases"]), known.get("has_sets", False))
        chosen = None if cells is None else tuple([cells] if isinstance(cells, int) else cells)
        command = self._give(Command(plan, strategy, chosen))
        if wait is False and not until_complete:
            return command
        deadline = time.monotonic() + timeout
        for _ in _polls(deadline):
            is_over = not self._is_running()
            try:
                taken = self.answer(command)
            except TooEarly:
                command = self._give(Command(plan, strategy, chosen))
                continue
            status = self.status()
            if on_progress is not None:
                on_progress(status)
            wanted = set(status if known is None else range(known["cells"])) if chosen is None else set(chosen)
            is_done = not until_complete or all(_is_complete(status.get(cell)) for cell in wanted)
            if taken and wanted.issubset(taken) and is_done:
                return command
            if is_over and not (wait or until_complete):
                return command
        raise SparkError(
            f"control: the plan has not been changed everywhere within {timeout:.0f} s; the command stays in force. "
            "Is the query running, and do its triggers fire?"
        )

    def _give(self, command: Command) -> Command:
        self._folder.write("commands", f"{command.identity}.json", command.to_json())
        return command

    def _is_running(self) -> bool:
        """Whether the query runs, or may be starting: only its end is known for sure."""
        if self._query is not None:
            return bool(self._query.isActive)
        told = self._folder.read("status/cells.json") or {}
        return bool(told.get("is_running", True))

    def answer(self, command: Command) -> dict[int, str]:
        """Which cells have taken a command; an error with the reason if it was refused.

        ::

            print(f"{len(control.answer(command))} cells have taken it")
        """
        found = self._folder.read(f"status/answers/{command.identity}.json") or {}
        for cell, reason in found.items():
            if reason:
                kind = TooEarly if reason == TOO_EARLY else SparkError
                raise kind(f"control: refused by cell {cell}: {reason}")
        return {int(cell): reason for cell, reason in found.items()}

    def status(self) -> dict[int, CellStatus]:
        """Plan and completeness of each cell, as of its last report.

        ::

            for cell, status in control.status().items():
                print(cell, status.plan, status.percent)
        """
        told = self._folder.read("status/cells.json") or {"cells": {}}
        status = {}
        for cell, report in sorted(told["cells"].items(), key=lambda item: int(item[0])):
            strategy, phase, percent, *_ = report.get("mig", (None, None, 100.0))
            status[int(cell)] = CellStatus(report["plan"], strategy, phase, percent)
        return status

    def progress(self) -> Progress:
        """Totals of the cells' last reports.

        ::

            print(control.progress().plans)
        """
        told = self._folder.read("status/cells.json") or {"cells": {}}
        return Progress.of({int(cell): report for cell, report in told["cells"].items()})


def _is_complete(status: CellStatus | None) -> bool:
    return status is not None and status.phase in (None, "done")


def _polls(deadline: float) -> Iterator[None]:
    while time.monotonic() < deadline:
        yield
        time.sleep(0.2)


def folders_in(progress: Any) -> list[ControlFolder]:
    """The control folders of a query's joins, read from a progress of the query."""
    sources = progress.get("sources") if hasattr(progress, "get") else progress.sources
    told = [source.get("description") if hasattr(source, "get") else source.description for source in sources or []]
    paths = [found.group(1) for description in told if (found := _SOURCE.search(description or ""))]
    return [folder for path in paths if (folder := ControlFolder(path)).exists()]


def control(target: Any) -> Control:
    """Control of a running join: by the path of its control folder, or by its `StreamingQuery`.

    ::

        control = ms.spark.control(f"{folder}/control")
    """
    if isinstance(target, str) or hasattr(target, "__fspath__"):
        folder = ControlFolder(str(target))
        if not folder.exists():
            raise SparkError(
                f"control: {str(target)!r} is not the control folder of a query: "
                "it has no folders 'commands' and 'status'"
            )
        return Control(folder)
    if not (hasattr(target, "lastProgress") and hasattr(target, "isActive")):
        raise SparkError(
            f"control: {shown(target)} is neither a path nor a StreamingQuery; give the folder that the join has as "
            "control=, or the query that start() returned"
        )
    deadline = time.monotonic() + _FIRST_PROGRESS_SECONDS
    for _ in _polls(deadline):
        progress = target.lastProgress
        if progress is not None:
            folders = folders_in(progress)
            if len(folders) > 1:
                paths = ", ".join(folder.path for folder in folders)
                raise SparkError(f"control: this query has several joins; give a folder, one of {paths}")
            if not folders:
                raise SparkError(
                    "control: this query has no control folder; give one as sql(..., control=PATH), "
                    "or set spark.sql.streaming.checkpointLocation"
                )
            return Control(folders[0], target)
        if not target.isActive:
            break
    raise SparkError("control: the query has made no progress yet; give the control folder's path instead")
