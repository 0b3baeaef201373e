"""A file for those results of a cell's batch that are too large for Spark at once.

Spark puts everything that a cell returns in a batch into one Arrow array, which holds less than 2 GiB. A batch with
more results would fail, and fail again after every restart. So only the first `DIRECT_BYTES` go through Spark. The rest
waits in a file in the executor's own folder, and a ticket with its name goes through Spark. Results are unpacked in the
task that made them, so the file is found there, and removed as it is opened. Spark clears the folder when the executor
ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from midstream.errors import SparkError

#: So many bytes of results go through Spark itself.
DIRECT_BYTES = 256 << 20
_TICKET = b"MIDSTREAM-SPOOL"
_LENGTH_BYTES = 8


class Spool:
    """The results of one batch of a cell, as parcels. As a context it discards them if an error leaves its block."""

    def __init__(self) -> None:
        self._direct: list[bytes] = []
        self._size = 0
        self._file: BinaryIO | None = None
        self._path = ""

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *problem: object) -> None:
        if kind is not None:
            self.discard()

    def put(self, parcels: Iterable[bytes]) -> None:
        """Keep parcels."""
        for parcel in parcels:
            self._size += len(parcel)
            if self._size <= DIRECT_BYTES:
                self._direct.append(parcel)
                continue
            if self._file is None:
                descriptor, self._path = tempfile.mkstemp(prefix="midstream-results-", dir=_folder())
                self._file = os.fdopen(descriptor, "wb")
            self._file.write(len(parcel).to_bytes(_LENGTH_BYTES, "little"))
            self._file.write(parcel)

    def close(self) -> list[bytes]:
        """What goes through Spark: parcels, and the ticket for others."""
        if self._file is None:
            return self._direct
        self._file.close()
        return [*self._direct, _TICKET + os.fsencode(self._path)]

    def discard(self) -> None:
        """Forget everything: the batch is run again."""
        if self._file is not None:
            try:
                self._file.close()  # it may have bytes left for which there is no room
            finally:
                os.unlink(self._path)


def parcels_behind(content: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """The parcel itself, or those that a ticket stands for."""
    if bytes(content[: len(_TICKET)]) != _TICKET:
        yield content
        return
    path = bytes(content[len(_TICKET) :])
    if not os.path.exists(path):
        raise SparkError(f"results: {os.fsdecode(path)} is gone before it was read; was the executor's folder cleared?")
    with open(path, "rb") as file:
        os.unlink(path)
        while head := file.read(_LENGTH_BYTES):
            yield file.read(int.from_bytes(head, "little"))


def _folder() -> str:
    """Spark's folder for what a worker spills; the system's for temporary files where there is no Spark."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
