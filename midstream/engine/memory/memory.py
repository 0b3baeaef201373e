"""What an engine knows of its memory: what it takes, the limit if there is one, and who keeps to it.

Without a limit nothing is measured, and a chunk costs one question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from midstream.cql.model import Query
from midstream.engine.executors.protocol import Executor, ExecutorKind
from midstream.engine.input.batch import CHUNK_ROWS, Chunk, StreamRows, cut_into_chunks
from midstream.engine.input.sized_chunks import cut_to_size
from midstream.engine.memory.counting import MemoryUse, count_memory
from midstream.engine.memory.forecast import forecast_windows
from midstream.engine.memory.keeper import Held, Keeper
from midstream.engine.stats import MemoryStats
from midstream.errors import EngineError, InputError


def check_executor(kind: ExecutorKind, call: str) -> None:
    """An error if executors of a kind cannot keep to a memory limit."""
    if not kind.can_evict:
        raise EngineError(
            f"{call}: executor {kind.name!r} cannot give up what it keeps, so that there can be no memory_limit; "
            "use executor='tree' or 'stems', or leave memory_limit out"
        )


class Memory:
    """The memory of one engine. `late_bytes` tells what kept late rows take."""

    def __init__(self, query: Query, parts: Held, late_bytes: Callable[[], int]):
        self._query = query
        self._parts = parts
        self._late_bytes = late_bytes
        self._keeper: Keeper | None = None
        self._largest_chunk = CHUNK_ROWS

    def count(self) -> MemoryUse:
        """What everything takes now."""
        return count_memory(self._parts.windows, self._parts.lane, self._late_bytes())

    @property
    def limit(self) -> int | None:
        """The bytes that everything may take, if that is limited."""
        return None if self._keeper is None else self._keeper.limit

    def set_limit(self, limit: int | None, call: str) -> None:
        """Take no more bytes than these from now on; an error, and nothing changes, if the base windows take more."""
        if limit is None:
            self._keeper = None
            return
        check_executor(self._parts.lane.executor.kind, call)
        for window in self._parts.windows:
            window.trim(2 * len(window))
        windows = self.count().windows
        if windows > limit:
            raise EngineError(
                f"{call}: memory_limit={limit:,} bytes, but the base windows alone take {windows:,} bytes; "
                f"give at least that, or use smaller windows"
            )
        if self._keeper is None:
            self._keeper = Keeper(limit, self._parts, self.count, len(self._query.streams))
        self._keeper.limit = limit
        self._keeper.hold()

    def hold(self) -> None:
        """Give up what does not fit."""
        if self._keeper is not None:
            self._keeper.hold()

    def may_fill(self, beginning: Executor | None = None) -> bool:
        """Whether there is room to compute what is missing before anybody asks for it; see `Keeper.may_fill`."""
        return self._keeper is None or self._keeper.may_fill(beginning)

    def stats(self) -> MemoryStats | None:
        """How the limit is kept, if there is one."""
        return None if self._keeper is None else self._keeper.stats()

    # Rows that come --------------------------------------------------------------------------------------------------

    def check(self, accepted: Mapping[str, StreamRows], find_watermark: Callable[[], int]) -> None:
        """An error if the base windows could not hold these rows; `find_watermark` gives the watermark after them."""
        if self._keeper is None:
            return
        self._largest_chunk = CHUNK_ROWS
        if self._has_room_for(accepted):
            return
        use, limit = self.count(), self._keeper.limit
        others = use.output + use.late
        moments = self._parts.horizon, find_watermark()
        found = forecast_windows(self._query, self._parts.windows, accepted, moments, limit - others)
        if found.chunk_rows is None:
            beside = f", beside {others:,} of what waits for the output and of late rows" if others else ""
            raise InputError(
                f"push: with these rows the base windows would take about {found.needed:,} bytes{beside}, more than "
                f"memory_limit={limit:,}; give a larger limit, use smaller windows, or move the watermark on"
            )
        self._largest_chunk = found.chunk_rows

    def _has_room_for(self, accepted: Mapping[str, StreamRows]) -> bool:
        """Whether no window has to grow for these rows, so that there is nothing to compute."""
        for relation, window in zip(self._query.inputs, self._parts.windows, strict=True):
            rows = accepted.get(relation.source)
            if rows is not None and len(window) + len(rows) > window.capacity:
                return False
        # Texts and lists may be of any length.
        return not any(rows.large for rows in accepted.values())

    def take_chunks(self, accepted: dict[str, StreamRows]) -> Iterator[Chunk]:
        """The chunks of a push; before the next one, what the last one has added is made to fit.

        After the last one, it is up to the caller to `hold`.
        """
        keeper, meter = self._keeper, self._parts.meter
        if keeper is None:
            yield from cut_into_chunks(accepted)
            return
        largest = self._largest_chunk

        def next_rows() -> int:
            if keeper.has_unmeasured:
                keeper.hold()
            return min(largest, keeper.next_rows())

        for chunk in cut_to_size(cut_into_chunks(accepted), next_rows, keeper.least_rows):
            if keeper.has_unmeasured:
                keeper.hold()
            moved = meter.bytes_moved
            yield chunk
            keeper.measure(sum(len(rows) for rows in chunk.rows.values()), meter.bytes_moved - moved)
