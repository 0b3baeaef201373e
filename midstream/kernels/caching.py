"""Compiled kernels are kept on disk, each with a hash of the sources that it was compiled from.

Numba asks only whether the file of the kernel itself has changed. But a kernel contains what it inlines and calls from
other files, and the values of their constants: with those changed, Numba would go on with the old machine code. So
`kernel` stores the hash of all sources of `midstream.kernels` with the machine code, and takes a code with another hash
for missing. It is then compiled again, and takes the place of the old one.

They are kept beside the sources. Where nobody may write there, or the sources are in a zip, as executors of Spark have
them, they are kept in a folder of the user's that has the hash in its name: then each machine compiles them once, and
not each application and executor, whose zips lie at other paths.

Hash and code are one file, which Numba replaces as a whole, so that processes that start at the same time, perhaps
with different sources, never take the code of one for that of another.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    _CacheLocator,
)
from numba.misc.appdirs import AppDirs


def kernel(function):
    """Compile a function when it is first called, and keep the machine code on disk until a source changes."""
    compiled = njit(function)
    try:
        compiled._cache = _KernelCache(function)
    except RuntimeError:
        pass  # nothing can be written anywhere: each process compiles for itself
    return compiled


def _hash_sources() -> str:
    """A hash of the names and contents of all source files of this package."""
    found = hashlib.sha256()
    for source in sorted(resources.files(__package__).iterdir(), key=lambda source: source.name):
        if source.name.endswith(".py"):
            content = source.read_bytes()
            found.update(f"{source.name} {len(content)} ".encode())
            found.update(content)
    return found.hexdigest()


#: Taken while the package is imported: a file that is edited later is not what this process compiles.
SOURCES_HASH = _hash_sources()


class _UsersFolder(_CacheLocator):
    """A place for kernels that depends on nothing but the sources."""

    def __init__(self, function):
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self):
        folder = AppDirs(appname="midstream", appauthor=False).user_cache_dir
        return str(Path(folder) / f"kernels-{SOURCES_HASH[:16]}")

    def get_source_stamp(self):
        return SOURCES_HASH

    def get_disambiguator(self):
        return str(self._line)

    @classmethod
    def from_function(cls, function, file):
        found = cls(function)
        try:
            found.ensure_cache_path()
        except OSError:
            return None
        return found


class _HashedCode(CompileResultCacheImpl):
    """Numba's form of machine code on disk, with the hash in front."""

    _locator_classes: list[Any] = [UserProvidedCacheLocator, InTreeCacheLocator, _UsersFolder]  # noqa: RUF012

    def reduce(self, cres):
        return SOURCES_HASH, *super().reduce(cres)

    def rebuild(self, target_context, payload):
        stored_hash, *code = payload
        return super().rebuild(target_context, code) if stored_hash == SOURCES_HASH else None


class _KernelCache(FunctionCache):
    _impl_class = _HashedCode
