"""The words inside a bracketed window -> `Window`.

``[RANGE 10 MINUTES]`` keeps a row for a time, ``[ROWS 100]`` until a hundred more have come, ``[UNBOUNDED]`` for ever.
"""

from __future__ import annotations

from midstream.cql.durations import LARGEST, duration
from midstream.cql.model import Window, WindowKind
from midstream.errors import QueryError

WINDOWS_TEXT = "write [RANGE 10 MINUTES], [ROWS 100] or [UNBOUNDED]"


def parse_window(words: str) -> Window:
    """A window from what stands between its brackets.

    >>> parse_window("RANGE 1.5 SECONDS")
    Window(kind=<WindowKind.RANGE: 'range'>, size=1500000)
    >>> parse_window("RANGE INTERVAL '1' MINUTE").size
    60000000
    >>> parse_window("rows 10")
    Window(kind=<WindowKind.ROWS: 'rows'>, size=10)
    """
    kind, _, size = words.partition(" ")
    if kind.upper() == "UNBOUNDED" and not size:
        return Window(WindowKind.UNBOUNDED)
    if kind.upper() == "RANGE":
        if size.upper() == "UNBOUNDED":
            return Window(WindowKind.UNBOUNDED)
        return Window(WindowKind.RANGE, duration(size))
    if kind.upper() == "ROWS":
        if not (size.isascii() and size.isdigit()) or len(size) > 19 or not 0 < int(size) <= LARGEST:
            raise QueryError(f"ROWS takes a whole number of rows, at least 1, not '{size}'")
        return Window(WindowKind.ROWS, int(size))
    raise QueryError(f"'[{words}]' is not a window")
