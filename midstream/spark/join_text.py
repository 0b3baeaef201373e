"""The query that `join` writes, and its errors in terms of the arguments of `join`.

Users of `join` never see the text, so an error must not point at a line of it. Each piece of the text remembers
the argument that it came from::

    SELECT o.id FROM o [RANGE 10 MINUTES], p [RANGE 10 MINUTES] WHERE o.id = p.id
           ----      ----------------------------------------         -----------
           select    streams, within                                  on
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midstream.cql.durations import Duration, duration, duration_text
from midstream.errors import QueryError, SparkError, did_you_mean, shown

_UNBOUNDED = "UNBOUNDED"
_NOT_CONNECTED = "add one to WHERE"


@dataclass(frozen=True)
class _Piece:
    """A part of the text; `argument` is where it came from, or nothing for the words in between."""

    text: str
    argument: str = ""


class JoinText:
    """The text of a join, with the arguments that its parts came from.

    >>> JoinText({"o": 0, "p": 0}, "id", "10 minutes", ["o.id"]).text
    'SELECT o.id FROM o [RANGE 10 MINUTES], p [RANGE 10 MINUTES] WHERE o.id = p.id'
    """

    def __init__(
        self,
        streams: Mapping[str, Any],
        on: str | Sequence[str],
        within: Duration | Mapping[str, Duration],
        select: str | Sequence[str],
    ):
        if not isinstance(streams, Mapping) or len(streams) < 2:
            raise SparkError("join: give at least two streams, as a dict of names and DataFrames")
        names = list(streams)
        windows = _windows(names, within)
        columns = _texts("select", select)
        pieces = [_Piece("SELECT ")]
        pieces += _join(", ", [_Piece(column, f"select={column!r}") for column in columns])
        pieces.append(_Piece(" FROM "))
        for place, name in enumerate(names):
            pieces += [
                _Piece(", " if place else ""),
                _Piece(_quote(name), f"streams={{{name!r}: ...}}"),
                _Piece(f" [RANGE {windows[name]}]", f"within={windows[name].lower()!r}"),
            ]
        pieces.append(_Piece(" WHERE "))
        pieces += _join(" AND ", _conditions(names, on))
        self._pieces = tuple(pieces)
        self.text = "".join(piece.text for piece in pieces)

    def explained(self, problem: QueryError) -> QueryError:
        """The error of a query in terms of the arguments."""
        if problem.place is None:
            return problem
        argument = self._argument(problem.place.offset)
        where = f" in {argument}" if argument else ""
        right = problem.place.right
        if right.startswith(_NOT_CONNECTED):
            where, right = "", "add a condition to on="
        return QueryError(f"join: {problem.place.what}{where}" + (f"; {right}" if right else ""))

    def _argument(self, offset: int) -> str:
        """The argument that a place in the text came from; the last argument for the end of the text."""
        ends = itertools.accumulate(len(piece.text) for piece in self._pieces)
        found = [piece.argument for piece, end in zip(self._pieces, ends, strict=True) if offset < end]
        return found[0] if found else self._pieces[-1].argument


def _windows(names: Sequence[str], within: Duration | Mapping[str, Duration]) -> dict[str, str]:
    """The length of each stream's window, as a query has it."""
    given = dict(within) if isinstance(within, Mapping) else dict.fromkeys(names, within)
    for name in given:
        if name not in names:
            hint = did_you_mean(name, names)
            raise SparkError(f"join: within names an unknown stream {shown(name)}; {hint}streams: {', '.join(names)}")
    for name in names:
        if name not in given:
            raise SparkError(f"join: no window for stream {name!r}; give within={{{name!r}: '10 minutes'}}")
    return {name: _length(name, given[name]) for name in names}


def _length(name: str, given: Duration) -> str:
    if isinstance(given, str) and given.strip().upper() == _UNBOUNDED:
        return _UNBOUNDED
    try:
        length = duration(given)
    except QueryError as problem:
        raise SparkError(f"join: within of stream {name!r}: {problem}") from None
    return given.upper() if isinstance(given, str) else duration_text(length).upper()


def _conditions(names: Sequence[str], on: str | Sequence[str]) -> list[_Piece]:
    if isinstance(on, str) and on.isidentifier():
        pairs = itertools.pairwise(_quote(name) for name in names)
        return [_Piece(f"{left}.{on} = {right}.{on}", f"on={on!r}") for left, right in pairs]
    conditions = _texts("on", on)
    pattern = "{}" if len(conditions) == 1 else "({})"
    return [_Piece(pattern.format(condition), f"on={condition!r}") for condition in conditions]


def _texts(name: str, given: str | Sequence[str]) -> list[str]:
    listed = [given] if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else []
    if not listed or not all(isinstance(text, str) and text.strip() for text in listed):
        example = "'id', or ['o.id = p.order_id']" if name == "on" else "['o.id', 'p.amount']"
        raise SparkError(f"join: {name}={shown(given)}; give text or a list of texts, such as {example}")
    return listed


def _join(separator: str, pieces: Sequence[_Piece]) -> list[_Piece]:
    return [part for place, piece in enumerate(pieces) for part in ([_Piece(separator)] if place else []) + [piece]]


def _quote(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"
