"""The driver's listener: keeps each cell's last report, logs migrations, sends hosts home when their query ends.

When the query of a join has started, it restores the session's settings, and makes the query fail if it cannot go on
from its checkpoint.
"""

from __future__ import annotations

import json
import logging
import weakref
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from midstream.cql.durations import duration_text
from midstream.spark.checkpoint.restart import find_refusal, read_ledgers
from midstream.spark.commands.control_folder import ControlFolder
from midstream.spark.commands.messages import is_identity
from midstream.spark.compat import QuickListener, fail_query, is_connect, plan_of_query, used_checkpoint
from midstream.spark.hosts import pool
from midstream.spark.reports.totals import operators_in, reports_by_join
from midstream.spark.settings import SHUFFLE_PARTITIONS, put_back
from midstream.spark.spec import JoinSpec

_logger = logging.getLogger("midstream")

Reports = dict[int, dict[str, Any]]

#: A driver that makes a join for every run of a job remembers so many of them.
_MOST_JOINS = 256


@dataclass(frozen=True)
class _Join:
    """A join that was made: its name, its control folder, and what it is if no command has it checked."""

    name: str
    folder: str | None
    unchecked: JoinSpec | None


class JoinListener(QuickListener):
    """One per session. Joins are told apart by their unique ids, since two may have the same name."""

    def __init__(self, session: Any) -> None:
        self._session = weakref.ref(session)
        #: The last report of each cell, by query run and join.
        self.reports: dict[str, dict[str, Reports]] = {}
        self._answers: dict[str, dict[int, str]] = {}
        #: The joins that were made lately.
        self._joins: dict[str, _Join] = {}
        #: Those of them whose queries have not started yet, and those whose queries have.
        self._expected: set[str] = set()
        self._started: set[str] = set()
        #: Of each query run that was seen to start, the control folders of its joins by name.
        self._folders: dict[str, dict[str, str]] = {}
        #: The control folders of each query run that something was written into.
        self._told: dict[str, dict[str, ControlFolder]] = {}

    def expect(self, spec: JoinSpec, name: str, folder: str | None, has_check: bool) -> None:
        """Note that a join was made, perhaps with a control folder, and that its query will start.

        `has_check` says whether a command in the folder has a changed join checked against its checkpoint.
        """
        self._joins[spec.operator] = _Join(name, folder, None if has_check else spec)
        self._expected.add(spec.operator)
        if len(self._joins) > _MOST_JOINS:
            oldest = next(iter(self._joins))
            del self._joins[oldest]
            self._expected.discard(oldest)
            self._started.discard(oldest)

    def onQueryStarted(self, event: Any) -> None:
        """A classic session calls it before `start` returns, when the query has its own copy of all settings."""
        session = self._session()
        if session is None or is_connect(session) or not self._joins:
            return
        query = str(event.id)
        try:
            operators = operators_in(plan_of_query(session, query))
            self._warn_of_second_starts(operators)
            self._put_back(operators)
        except Exception:
            _logger.exception("midstream: the settings of the session could not be put back")
            return
        joins = [self._joins[operator] for operator in operators if operator in self._joins]
        if joins:
            self._folders[str(event.runId)] = {join.name: join.folder for join in joins if join.folder is not None}
        specs = [join.unchecked for join in joins if join.unchecked is not None]
        if specs:
            self._check(session, query, specs)

    def _warn_of_second_starts(self, operators: Iterable[str]) -> None:
        """A DataFrame whose query starts once more finds the session's settings put back."""
        for operator in self._started.intersection(operators) - self._expected:
            _logger.warning(
                "midstream: the join %s was started before, and a new checkpoint gets as many partitions as %s says; "
                "call sql or join again for each start, or set it to the number of partitions",
                self._joins[operator].name,
                SHUFFLE_PARTITIONS,
            )

    def _check(self, session: Any, query: str, specs: list[JoinSpec]) -> None:
        """Make a query fail at once if the cells would refuse to go on from its checkpoint."""
        try:
            checkpoint = used_checkpoint(session, query)
            ledgers = [] if checkpoint is None else read_ledgers(session, checkpoint)
            reason = next((told for spec in specs if (told := find_refusal(ledgers, spec)) is not None), None)
            if reason is not None:
                fail_query(session, query, reason)
        except Exception:
            _logger.info("midstream: the checkpoint could not be checked before the first batch", exc_info=True)

    def _put_back(self, operators: Collection[str]) -> None:
        """Put settings back once the last of the joins that need them has started."""
        session = self._session()
        if session is None or self._expected.isdisjoint(operators):
            return
        self._started |= self._expected.intersection(operators)
        self._expected.difference_update(operators)
        if not self._expected:
            put_back(session)

    def onQueryProgress(self, event: Any) -> None:
        found = reports_by_join(event.progress)
        if str(event.progress.runId) not in self._folders:  # a client of Connect does not see the plan at the start
            self._put_back([operator for operator, join in list(self._joins.items()) if join.name in found])
        for join, reports in found.items():
            if reports:
                self._note(event.progress, join, reports)

    def _note(self, progress: Any, join: str, found: Reports) -> None:
        known = self.reports.setdefault(str(progress.runId), {}).setdefault(join, {})
        step = next((report["step"] for report in found.values() if "step" in report), None)
        if step is not None and not known:
            _logger.warning(
                "midstream: the query goes on in the steps of its checkpoint, of %s, and not in those that follow from "
                "its windows now; give step=%r to say so in the code",
                duration_text(step),
                duration_text(step),
            )
        for cell, report in found.items():
            before, now = known.get(cell, {}).get("mig"), report.get("mig")
            if now is not None and (before is None or before[:2] != now[:2]):
                _logger.info("midstream: cell %d: %s is %s, %.0f %% complete", cell, now[0], now[1], now[2])
            known[cell] = report
        folder = self._folder_of(str(progress.runId), join)
        if folder is not None:
            try:
                self._tell(progress, ControlFolder(folder), known, found)
            except Exception:
                _logger.exception("midstream: the status could not be written into the control folder")

    def _folder_of(self, run: str, join: str) -> str | None:
        """The control folder of a join of a run; of the last one of its name, if the run was not seen to start."""
        if run in self._folders:
            return self._folders[run].get(join)
        return next((known.folder for known in reversed(list(self._joins.values())) if known.name == join), None)

    def _tell(self, progress: Any, folder: ControlFolder, known: Reports, found: Reports) -> None:
        """Write what the cells have reported where `control` reads it."""
        run = str(progress.runId)
        self._told.setdefault(run, {})[folder.path] = folder
        told = {"run": run, "batch": progress.batchId, "is_running": True, "cells": known}
        folder.write("status", "cells.json", json.dumps(told))
        for cell, report in found.items():
            for identity, reason in report.get("ans", []):
                if not is_identity(identity):
                    continue
                answers = self._answers.setdefault(identity, {})
                answers[cell] = reason
                folder.write("status/answers", f"{identity}.json", json.dumps(answers))

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        run = str(event.runId)
        self.reports.pop(run, None)
        self._folders.pop(run, None)
        try:
            for folder in self._told.pop(run, {}).values():
                told = folder.read("status/cells.json") or {}
                if told.get("run") == run:
                    folder.write("status", "cells.json", json.dumps(told | {"is_running": False}))
        except Exception:
            _logger.exception("midstream: the end of a query could not be written into the control folder")
        try:
            pool.send_home(run)
        except Exception:
            _logger.exception("midstream: the hosts of a query that has ended could not be told")


_listeners: weakref.WeakKeyDictionary[Any, JoinListener] = weakref.WeakKeyDictionary()


def listen(session: Any) -> JoinListener:
    """The listener of a session, added to it once."""
    if session not in _listeners:
        listener = JoinListener(session)
        session.streams.addListener(listener)
        _listeners[session] = listener
    return _listeners[session]
