"""Row ids that change all the time, for random tests of little input. No result may change by it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from midstream.state import join_state, rings
from midstream.state.window import BaseWindow, Renumbering

_make_room = BaseWindow.make_room


def _make_room_by_packing(window: BaseWindow, size: int, horizon: int) -> Renumbering | None:
    kept = window._expiry.alive(window.ring(), horizon)
    if kept is None or len(kept) == len(window):
        return _make_room(window, size, horizon)
    return window._pack(kept, rings.capacity_for(2 * (len(kept) + size)))


@contextlib.contextmanager
def restless() -> Iterator[None]:
    """Windows are packed as soon as one row is dead; states keep what is dead behind an entry that is not."""
    with (
        mock.patch.object(BaseWindow, "make_room", _make_room_by_packing),
        mock.patch.object(join_state, "_SAMPLES", 0),
    ):
        yield
