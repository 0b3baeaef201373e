"""What an engine knows of its memory: what it takes, the limit if there is one, and who keeps to it.

Rows that the base windows cannot hold are refused with their push, or shed if that is allowed. Without a limit nothing
is measured, and a chunk costs one question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext

from midstream.cql.model import Query
from midstream.engine.executors.protocol import Executor
from midstream.engine.executors.registry import check_can_evict
from midstream.engine.input.batch import Chunk, StreamRows, cut_into_chunks
from midstream.engine.input.sized_chunks import cut_to_size
from midstream.engine.memory.counting import MemoryUse, count_memory
from midstream.engine.memory.forecast import Outlook
from midstream.engine.memory.keeper import Held, Keeper
from midstream.engine.memory.shedding import ALL, Admission, Shedder
from midstream.engine.stats import MemoryStats
from midstream.errors import EngineError, InputError
from midstream.state.indexes import HASH_SLOT_BYTES


class MemoryManager:
    """The memory of one engine. `late_bytes` tells what kept late rows take."""

    def __init__(self, query: Query, parts: Held, late_bytes: Callable[[], int], may_shed: bool = False):
        self._query = query
        self._parts = parts
        self._late_bytes = late_bytes
        self._keeper: Keeper | None = None
        #: Whether rows that do not fit are shed, instead of refusing the push.
        self.may_shed = may_shed
        #: The limit that comes as soon as the engine has the rows that it goes on from.
        self.limit_to_come: int | None = None
        self.shedder = Shedder(query, parts.readers)

    def count(self) -> MemoryUse:
        """What everything takes now."""
        return count_memory([*self._parts.windows, *self._parts.hidden.values()], self._parts.lane, self._late_bytes())

    @property
    def limit(self) -> int | None:
        """The bytes that everything may take, if that is limited."""
        return None if self._keeper is None else self._keeper.limit

    def set_limit(
        self, limit: int | None, call: str, changing: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """Take no more bytes than these from now on; an error, and nothing changes, if the base windows take more.

        What could leave things half changed happens in the context of `changing`.
        """
        self.limit_to_come = None
        if limit is None:
            with changing():
                if self._keeper is not None:
                    self._keeper.end()
                self._keeper = None
            return
        check_can_evict(self._parts.lane.executor.kind, call)
        with changing():
            for window in (*self._parts.windows, *self._parts.hidden.values()):
                window.trim(2)
        windows = self.count().windows
        if windows > limit:
            raise EngineError(
                f"{call}: memory_limit={limit:,} bytes, but the base windows alone take {windows:,} bytes; "
                f"give at least that, or use smaller windows"
            )
        with changing():
            if self._keeper is None:
                self._keeper = Keeper(limit, self._parts, self.count, self._find_loose, len(self._query.streams))
            self._keeper.limit = limit
            self._keeper.hold(is_new=True)

    def _find_loose(self) -> list[int]:
        """The inputs whose window and hidden rows take more side by side than they would together."""
        if not self._parts.hidden:
            return []
        needed = self._look_ahead(self._parts.horizon).bytes_now()
        windows = self._parts.windows
        return [
            number
            for number, hidden in self._parts.hidden.items()
            if needed[number] <= windows[number].nbytes + hidden.nbytes
        ]

    def _look_ahead(self, watermark: int, room: int = 0) -> Outlook:
        parts = self._parts
        return Outlook(self._query, parts.windows, parts.hidden, parts.horizon, watermark, room)

    def hold(self) -> None:
        """Give up what does not fit."""
        if self._keeper is not None:
            self._keeper.hold()

    def may_fill(self, beginning: Executor | None = None) -> bool:
        """Whether there is room to compute what is missing before anybody asks for it; see `Keeper.may_fill`."""
        return self._keeper is None or self._keeper.may_fill(beginning)

    def may_add_index(self) -> bool:
        """Whether there is room for one more index on each window, and for rows of a push that was admitted without.

        Never where rows may be shed: which rows are follows from windows without such indexes.
        """
        if self.may_shed:
            return False
        limit = self.limit_to_come if self._keeper is None else self._keeper.limit
        if limit is None:
            return True
        use = self.count()
        more = 2 * HASH_SLOT_BYTES * sum(window.capacity for window in self._parts.windows)
        return use.windows + use.output + use.late + more <= limit

    def stats(self) -> MemoryStats | None:
        """How the limit is kept, if there is one."""
        return None if self._keeper is None else self._keeper.stats(self.shedder.threshold / ALL)

    # Rows that come --------------------------------------------------------------------------------------------------

    def admit(self, accepted: dict[str, StreamRows], find_watermark: Callable[[], int]) -> Admission:
        """How these rows may enter: an error if the base windows could not hold them, and none may be shed.

        `find_watermark` gives the watermark after them. Nothing changes.
        """
        if self._keeper is None:
            return Admission(accepted)
        # Without rows nothing enters: a hidden row wakes by one that arrives.
        if not any(len(rows) for rows in accepted.values()):
            return Admission(accepted, threshold=self.shedder.threshold)
        if not self.may_shed and self._has_room_for(accepted):
            return Admission(accepted)
        use, limit = self.count(), self._keeper.limit
        others = use.output + use.late
        outlook = self._look_ahead(find_watermark(), room=limit - others)
        if self.may_shed:
            return self.shedder.admit(accepted, outlook)
        found = outlook.forecast(accepted)
        if found.chunk_rows is None and (later := outlook.without_ended(accepted)) is not None:
            found = min(found, later.forecast(accepted), key=lambda forecast: forecast.chunk_rows is None)
        if found.chunk_rows is None:
            beside = f", beside {others:,} of what waits for the output and of late rows" if others else ""
            raise InputError(
                f"push: with these rows the base windows would take about {found.needed:,} bytes{beside}, more than "
                f"memory_limit={limit:,}; give a larger limit, use smaller windows, move the watermark on, or let an "
                "embedded engine drop rows by overload='shed'"
            )
        return Admission(accepted, found.chunk_rows)

    def _has_room_for(self, accepted: Mapping[str, StreamRows]) -> bool:
        """Whether no window has to grow for these rows and those that are hidden: there is nothing to compute."""
        for number, (relation, window) in enumerate(zip(self._query.inputs, self._parts.windows, strict=True)):
            rows, hidden = accepted.get(relation.source), self._parts.hidden.get(number)
            arriving = 0 if rows is None else len(rows)
            waiting = 0 if hidden is None else len(hidden)
            if len(window) + waiting + arriving > window.capacity:
                return False
            # Texts and lists may be of any length, and a sorted index grows with every row.
            if (waiting and window.holds_large) or (arriving and rows is not None and rows.large):
                return False
            if (waiting or arriving) and window.sorted_indexes:
                return False
        return True

    def take_chunks(self, admission: Admission) -> Iterator[Chunk]:
        """The chunks of a push; before the next one, what the last one has added is made to fit.

        After the last one, it is up to the caller to `hold`.
        """
        accepted, largest = admission.accepted, admission.chunk_rows
        self.shedder.threshold = admission.threshold
        keeper, meter = self._keeper, self._parts.meter
        for executor in self._parts.lane.executors():
            for owner in executor.evicting():
                owner.heed(None if keeper is None else keeper.may_fill)
        if keeper is None:
            yield from cut_into_chunks(accepted)
            return

        def next_rows() -> int:
            if keeper.has_unmeasured:
                keeper.hold()
            return min(largest, keeper.next_rows())

        for chunk in cut_to_size(cut_into_chunks(accepted), next_rows, keeper.least_rows):
            if keeper.has_unmeasured:
                keeper.hold()
            moved = meter.bytes_moved
            yield chunk
            keeper.measure(chunk.size, meter.bytes_moved - moved)
