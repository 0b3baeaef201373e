"""One root error and one child per stage, so that a caller can catch as narrowly as it likes.

A message says where, what, and what would be right:
``query: unknown stream 'ordrs' at line 2, column 8; did you mean 'orders'? streams given: orders, payments``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

_LONGEST = 80


def shown(value: object) -> str:
    """A value that somebody gave, for a message: in one line, not too long, whatever the value is.

    >>> shown("soon"), shown([1] * 100)[-8:]
    ("'soon'", '1, 1 ...')
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a huge int has no text, and an object of somebody else's may fail in any way
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4].rstrip(', ')} ..."


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A question that names what was probably meant, with a blank behind; nothing if no known name is like it.

    >>> did_you_mean("ordrs", ["orders", "payments"]), did_you_mean("x", ["orders"])
    ("did you mean 'orders'? ", '')
    """
    spellings = {spelling.casefold(): spelling for spelling in known}
    close = difflib.get_close_matches(str(name).casefold(), spellings, n=1) if isinstance(name, str) else []
    return f"did you mean '{spellings[close[0]]}'? " if close else ""


class MidstreamError(Exception):
    """The root of every error that Midstream raises on purpose."""


@dataclass(frozen=True)
class Place:
    """Where in a query's text something is wrong, as an offset, what it is, and what would be right."""

    offset: int
    what: str
    right: str


class QueryError(MidstreamError):
    """The query text, or the schemas given with it, cannot be understood; `place` is set if it is about the text."""

    place: Place | None = None


class PlanError(MidstreamError):
    """A plan is not a binary tree over exactly the inputs of the query."""


class InputError(MidstreamError):
    """A push was refused; nothing changed."""


class EngineError(MidstreamError):
    """The engine cannot do this now: it is finished, closed, or was asked for something it does not have."""


class SnapshotError(MidstreamError):
    """A snapshot cannot be read, or does not fit the query."""


class SparkError(MidstreamError):
    """A join on Spark cannot be set up or go on: its options, the session's settings or the checkpoint do not fit."""


class Named(Protocol):
    """One of several things that users choose by name: a strategy, an executor, a routing."""

    @property
    def name(self) -> str: ...


SomeNamed = TypeVar("SomeNamed", bound=Named)


def find_named(name: object, known: Sequence[SomeNamed], what: str, several: str, call: str) -> SomeNamed:
    """The one that users call so, or an `EngineError` that names them all; `several` is the plural of `what`."""
    for candidate in known:
        if isinstance(name, str) and candidate.name == name:
            return candidate
    names = [candidate.name for candidate in known]
    hint = did_you_mean(name, names)
    raise EngineError(f"{call}: unknown {what} {shown(name)}; {hint}{several}: {', '.join(names)}")
