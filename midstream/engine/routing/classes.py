"""Classes of rows by one of their keys, for a routing that depends on what is in the rows.

Whole numbers are cut into ranges with about as many rows each; of other keys, the heaviest have a class of their own
and all others are class 0. Both are made of codes that were sampled, and made anew when they do not fit any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from midstream.engine.joins.combos import Delta
from midstream.state.indexes import Ints

MOST_CLASSES = 8
#: A key is heavy if it has this share of the sampled rows.
_HEAVY = 0.02


@dataclass(frozen=True)
class KeyClasses:
    """Classes by one key class: `bounds` are the first codes of all ranges but the lowest, `heavy` the heavy keys."""

    key_class: int
    bounds: tuple[int, ...] = ()
    heavy: tuple[int, ...] = ()

    def __len__(self) -> int:
        return 1 + len(self.bounds) + len(self.heavy)

    def of_codes(self, codes: Ints) -> Ints:
        """The class of each code.

        >>> KeyClasses(0, bounds=(10, 20)).of_codes(np.array([3, 10, 19, 99])).tolist()
        [0, 1, 1, 2]
        >>> KeyClasses(0, heavy=(5, 7)).of_codes(np.array([3, 7, 5])).tolist()
        [0, 2, 1]
        """
        found = np.searchsorted(self.values, codes, side="right")
        return np.where(self.values[found - 1] == codes, found, 0) if self.heavy else found

    @cached_property
    def values(self) -> Ints:
        """The bounds, or the heavy keys, in their order."""
        return np.array(self.bounds or self.heavy, np.int64)

    def of(self, delta: Delta) -> Ints | None:
        """The class of each combination; None if they do not have the key: all are class 0."""
        return self.of_codes(delta.codes(self.key_class)) if delta.has_codes(self.key_class) else None

    def to_json(self) -> dict[str, Any]:
        return {"key_class": self.key_class, "bounds": list(self.bounds), "heavy": list(self.heavy)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> KeyClasses:
        return cls(stored["key_class"], tuple(stored["bounds"]), tuple(stored["heavy"]))


def make_classes(key_class: int, codes: Ints, are_numbers: bool) -> KeyClasses | None:
    """Classes for keys like these; None if all would be in one.

    >>> make_classes(0, np.arange(80), are_numbers=True).bounds
    (10, 20, 30, 40, 50, 60, 70)
    >>> make_classes(0, np.array([4] * 50 + list(range(100, 150))), are_numbers=False).heavy
    (4,)
    """
    if are_numbers:
        ordered = np.sort(codes)
        cuts = ordered[[len(ordered) * part // MOST_CLASSES for part in range(1, MOST_CLASSES)]]
        made = KeyClasses(key_class, bounds=tuple(np.unique(cuts[cuts > ordered[0]]).tolist()))
    else:
        values, counts = np.unique(codes, return_counts=True)
        heaviest = np.argsort(-counts, kind="stable")[: MOST_CLASSES - 1]
        heavy = values[heaviest[counts[heaviest] >= max(2, _HEAVY * len(codes))]]
        made = KeyClasses(key_class, heavy=tuple(np.sort(heavy).tolist()))
    return made if len(made) > 1 else None
