"""The ways that rows of each class take, put together once for each decision and asked in every chunk."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

from midstream.engine.joins.combos import Delta
from midstream.engine.routing.classes import KeyClasses

Way = TypeVar("Way", bound=Hashable)


class Ways(Generic[Way]):
    """One way for each class of rows, if rows are told apart; several classes may take the same."""

    def __init__(self, ways: Sequence[Way], classes: KeyClasses | None):
        self._ways = list(dict.fromkeys(ways))
        #: Of combinations without the key, which are all of class 0.
        self._first = ways[0]
        self._classes = classes if len(self._ways) > 1 else None
        self._way_of_class = np.array([self._ways.index(way) for way in ways])

    def split(self, delta: Delta) -> Sequence[tuple[Way, Delta]]:
        """The combinations that take each way; what goes one way is together."""
        classes = self._classes
        if classes is None or not delta.has_codes(classes.key_class):
            return ((self._first, delta),)
        parts = delta.split(classes.key_class, classes.values, bool(classes.heavy), self._way_of_class)
        return [(way, part) for way, part in zip(self._ways, parts, strict=True) if len(part)]
