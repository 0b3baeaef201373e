"""Batches one after the other -> their results, for ``for`` and ``async for``."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import pyarrow as pa

from midstream.errors import InputError
from midstream.tables import TableLike, type_name

Batch: TypeAlias = Mapping[str, TableLike]
Batches: TypeAlias = Iterable[Batch] | AsyncIterable[Batch]


class Run(Iterator[pa.Table], AsyncIterator[pa.Table]):
    """One result table for each batch. A batch is pushed when its results are asked for, and once.

    >>> results = Run(lambda batch: pa.table({"streams": [len(batch)]}), [{"orders": []}, {}])
    >>> [table.to_pylist() for table in results]
    [[{'streams': 1}], [{'streams': 0}]]
    """

    def __init__(self, push: Callable[[Batch], pa.Table], batches: Batches):
        self._push = push
        self._iterator: Iterator[Batch] | None = None
        self._async_iterator: AsyncIterator[Batch] | None = None
        if isinstance(batches, Mapping) or hasattr(batches, "__arrow_c_stream__"):
            raise InputError(
                f"run: got {type_name(batches)}, which is not a sequence of batches; "
                "give a list or generator of {stream: rows}, or push a single batch with engine.push"
            )
        if isinstance(batches, Iterable) and not isinstance(batches, str | bytes):
            self._iterator = iter(batches)
        elif isinstance(batches, AsyncIterable):
            self._async_iterator = aiter(batches)
        else:
            raise InputError(f"run: got {type_name(batches)}; give an iterable, or async iterable, of {{stream: rows}}")

    def __iter__(self) -> Run:
        return self

    def __next__(self) -> pa.Table:
        if self._iterator is None:
            raise InputError("run: the batches come from an async iterable; take the results with 'async for'")
        return self._push(next(self._iterator))

    def __aiter__(self) -> Run:
        return self

    async def __anext__(self) -> pa.Table:
        if self._async_iterator is not None:
            return self._push(await anext(self._async_iterator))
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None
