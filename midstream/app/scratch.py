"""Temporary folders that are always removed: if the process that made one was killed, by the next run.

A folder is locked as long as a process that uses it lives. One that has a lock file which nobody holds is left over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LOCK = "lock"


@contextlib.contextmanager
def scratch_folder(name: str, place: Path | None = None) -> Iterator[Path]:
    """A folder that is removed at the end, also after Ctrl-C or SIGTERM; after a kill, when the next one is made.

    It is made in `place`, or where temporary files go. Call it in the main thread: it handles a signal.
    """

    def leave(number: int, frame: object) -> None:
        sys.exit(128 + number)

    sweep(name, place)
    folder, lock = locked_folder(name, place)
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield folder
    finally:
        signal.signal(signal.SIGTERM, before)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def keep(folder: Path) -> Path:
    """Keep a folder after all, under a new name that `sweep` leaves alone. Returns that name."""
    return folder.rename(folder.with_name(folder.name.replace("midstream-", "midstream-kept-", 1)))


def locked_folder(name: str, place: Path | None = None) -> tuple[Path, int]:
    """A new folder and the open file that locks it; it gets a name that is swept only when it is locked."""
    made = Path(tempfile.mkdtemp(prefix=f"midstream-new-{name}-", dir=place))
    lock = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder = made.with_name(made.name.replace("midstream-new-", "midstream-", 1))
    made.rename(folder)
    return folder, lock


def sweep(name: str, place: Path | None = None) -> list[Path]:
    """Take away folders whose users are gone; those of living ones are locked."""
    swept = []
    for folder in (place or Path(tempfile.gettempdir())).glob(f"midstream-{name}-*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # somebody else's, or being taken away
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
            swept.append(folder)
        finally:
            os.close(lock)
    return swept
