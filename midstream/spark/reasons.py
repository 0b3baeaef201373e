"""Why a query has failed, in one sentence instead of thousands of characters.

Spark repeats the reason of a failure between the stack traces of a Python worker, the task and the driver. Midstream's
own message is one line of that text.
"""

from __future__ import annotations

import re
from typing import Any

from midstream.errors import MidstreamError, SparkError, shown

_OURS = re.compile(r"^midstream\.errors\.(\w+): (.+)$", re.MULTILINE)
_TRACE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*([A-Za-z_][\w.]*(?::.*)?)")
_TASK = re.compile(r"most recent failure: [^\n]*?\): (.+)")
_QUERY = re.compile(r"terminated with exception: (.+)")
_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")


def reason(query: Any) -> str | None:
    """Why a `StreamingQuery` has failed, in one sentence; None if it has not.

    Give the query, or the exception that `awaitTermination` has raised. If the failure is not Midstream's, the most
    informative line is returned.

    >>> reason(ValueError("no file of that name"))
    'no file of that name'
    """
    if isinstance(query, BaseException):
        problem: BaseException | None = query
    elif callable(getattr(query, "exception", None)) and hasattr(query, "isActive"):
        problem = query.exception()
    else:
        raise SparkError(f"reason: {shown(query)} is neither a StreamingQuery nor an exception; give one of them")
    if problem is None:
        return None
    return str(problem) if isinstance(problem, MidstreamError) else reason_in(str(problem)) or type(problem).__name__


def reason_in(text: str) -> str:
    """The most informative line of a failure's text.

    >>> reason_in("... Traceback (most recent call last):\\n  File ...\\nValueError: too many\\n\\tat org.apache...")
    'ValueError: too many'
    """
    ours = _OURS.findall(text)
    if ours:
        # If an error of ours was wrapped into another one, ours comes first.
        return str(next((told for kind, told in ours if kind == "SparkError"), ours[0][1]))
    for known in (_TRACE, _TASK, _QUERY):
        if found := known.search(text):
            return _STATE.sub("", found.group(1)).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _STATE.sub("", lines[0]) if lines else ""
