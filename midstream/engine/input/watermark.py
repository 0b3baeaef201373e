"""The query's watermark: the smallest of what its streams have reached, unless watermarks are given.

Without an explicit watermark a stream has reached its largest event time less its delay. A watermark for one stream
moves that stream on. Once a watermark for the whole query was given, only given ones count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from midstream.cql.moments import moment_text
from midstream.errors import InputError, did_you_mean
from midstream.kernels.types import SMALLEST

NONE_YET = int(SMALLEST)


class Watermark:
    """What each stream has reached, and the query's watermark, which never goes back."""

    def __init__(self, delays: Mapping[str, int], time_type: pa.DataType | None = None):
        self._delays = dict(delays)
        self._time_type = pa.int64() if time_type is None else time_type
        self.maxima: dict[str, int] = {}
        self.given: dict[str, int] = {}
        self.is_explicit = False
        self.current = NONE_YET

    def check(self, given: int | Mapping[str, int] | None) -> None:
        """Refuse a watermark that goes back or names an unknown stream."""
        if isinstance(given, Mapping):
            for stream, value in given.items():
                if stream not in self._delays:
                    known = ", ".join(self._delays)
                    hint = did_you_mean(stream, self._delays)
                    raise InputError(f"push: watermark for unknown stream {stream!r}; {hint}streams: {known}")
                before = self.given.get(stream)
                if before is not None and value < before:
                    raise InputError(
                        f"push: the watermark of stream {stream!r} would go back {self._way(before, value)}; "
                        "give the same or a later one"
                    )
        elif given is not None and given < self.current:
            raise InputError(
                f"push: the watermark would go back {self._way(self.current, given)}; give the same or a later one"
            )

    def _way(self, before: int, after: int) -> str:
        return f"from {moment_text(before, self._time_type)} to {moment_text(after, self._time_type)}"

    def after(self, maxima: Mapping[str, int], given: int | Mapping[str, int] | None) -> Watermark:
        """The watermark after a push with these largest event times and this explicit watermark; changes nothing."""
        moved = self.copy()
        moved.advance(maxima, given)
        return moved

    def advance(self, maxima: Mapping[str, int], given: int | Mapping[str, int] | None) -> None:
        """Take in a push."""
        for stream, value in maxima.items():
            self.maxima[stream] = max(value, self.maxima.get(stream, value))
        if isinstance(given, Mapping):
            self.given.update(given)
        elif given is not None:
            self.is_explicit = True
            for stream in self._delays:
                self.given[stream] = max(given, self.given.get(stream, given))
        reached = [self._reached(stream) for stream in self._delays]
        self.current = max(self.current, min(reached))

    def _reached(self, stream: str) -> int:
        given = self.given.get(stream, NONE_YET)
        if self.is_explicit or stream not in self.maxima:
            return given
        return max(given, self.maxima[stream] - self._delays[stream], NONE_YET)

    def held_back_by(self) -> str | None:
        """The stream that holds the watermark back most; none if all have reached the same."""
        reached = {stream: self._reached(stream) for stream in self._delays}
        slowest = min(reached, key=lambda stream: reached[stream])
        return slowest if reached[slowest] < max(reached.values()) or reached[slowest] == NONE_YET else None

    def to_json(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        return {
            "maxima": self.maxima,
            "given": self.given,
            "is_explicit": self.is_explicit,
            "current": self.current,
        }

    def from_json(self, stored: Mapping[str, Any]) -> None:
        """Go on from what a snapshot kept."""
        self.maxima, self.given = dict(stored["maxima"]), dict(stored["given"])
        self.is_explicit, self.current = stored["is_explicit"], stored["current"]

    def copy(self) -> Watermark:
        twin = Watermark(self._delays, self._time_type)
        twin.maxima, twin.given = dict(self.maxima), dict(self.given)
        twin.is_explicit, twin.current = self.is_explicit, self.current
        return twin
