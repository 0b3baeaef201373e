"""The driver's listener: keeps each cell's last report, logs migrations, sends hosts home when their query ends."""

from __future__ import annotations

import json
import logging
import weakref
from typing import Any

from midstream.spark import hosts
from midstream.spark.compat import QuickListener
from midstream.spark.control_folder import ControlFolder, folder_in
from midstream.spark.totals import cell_reports

_logger = logging.getLogger("midstream")


class JoinListener(QuickListener):
    """One per session."""

    def __init__(self) -> None:
        #: The last report of each cell, by query run.
        self.reports: dict[str, dict[int, dict[str, Any]]] = {}
        self._answers: dict[str, dict[int, str]] = {}

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        found = cell_reports(event.progress)
        if not found:
            return
        known = self.reports.setdefault(str(event.progress.runId), {})
        for cell, report in found.items():
            before, now = known.get(cell, {}).get("mig"), report.get("mig")
            if now is not None and (before is None or before[:2] != now[:2]):
                _logger.info("midstream: cell %d: %s is %s, %.0f %% complete", cell, now[0], now[1], now[2])
            known[cell] = report
        try:
            self._tell(event.progress, found)
        except Exception:
            _logger.exception("midstream: the status could not be written into the control folder")

    def _tell(self, progress: Any, found: dict[int, dict[str, Any]]) -> None:
        """Write what the cells have reported where `control` reads it."""
        path = folder_in(progress)
        if path is None:
            return
        folder = ControlFolder(path)
        run = str(progress.runId)
        told = {"run": run, "batch": progress.batchId, "cells": self.reports[run]}
        folder.write("status", "cells.json", json.dumps(told))
        for cell, report in found.items():
            for identity, reason in report.get("ans", []):
                answers = self._answers.setdefault(identity, {})
                answers[cell] = reason
                folder.write("status/answers", f"{identity}.json", json.dumps(answers))

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self.reports.pop(str(event.runId), None)
        try:
            hosts.send_home(str(event.runId))
        except Exception:
            _logger.exception("midstream: the hosts of a query that has ended could not be told")


_listeners: weakref.WeakKeyDictionary[Any, JoinListener] = weakref.WeakKeyDictionary()


def listen(session: Any) -> JoinListener:
    """The listener of a session, added to it once."""
    if session not in _listeners:
        listener = JoinListener()
        session.streams.addListener(listener)
        _listeners[session] = listener
    return _listeners[session]
