"""Which rows of the base windows an executor knows: all of them, or only those from some ids on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from midstream.state.window import BaseWindow, Renumbering


class KnownRows:
    """With `since`, rows from these ids on, by input; inputs that are not in it, static tables, are known whole."""

    def __init__(self, since: Mapping[int, int] | None):
        self.since = None if since is None else dict(since)

    @property
    def are_all(self) -> bool:
        return self.since is None

    def purge(self, windows: Sequence[BaseWindow]) -> None:
        """When the windows hold no older rows any more, the ones that are known are all."""
        if self.since is not None and all(first <= windows[number].head for number, first in self.since.items()):
            self.since = None

    def renumber(self, number: int, renumbering: Renumbering) -> None:
        """The rows of an input's window have new ids."""
        if self.since is not None and number in self.since:
            self.since[number] = int(renumbering.apply(np.array([self.since[number]]))[0])
