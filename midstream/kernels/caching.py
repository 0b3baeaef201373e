"""Compiled kernels are kept on disk, each with a hash of the sources that it was compiled from.

Numba asks only whether the file of the kernel itself has changed. But a kernel contains what it inlines and calls from
other files, and the values of their constants: with those changed, Numba would go on with the old machine code. So
`kernel` stores the hash of all sources of `midstream.kernels` with the machine code, and takes a code with another hash
for missing. It is then compiled again, and takes the place of the old one.

Hash and code are one file, which Numba replaces as a whole, so that processes that start at the same time, perhaps
with different sources, never take the code of one for that of another.
"""

from __future__ import annotations

import hashlib
from importlib import resources

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache


def kernel(function):
    """Compile a function when it is first called, and keep the machine code on disk until a source changes."""
    compiled = njit(function)
    compiled._cache = _KernelCache(function)
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


class _HashedCode(CompileResultCacheImpl):
    """Numba's form of machine code on disk, with the hash in front."""

    def reduce(self, cres):
        return SOURCES_HASH, *super().reduce(cres)

    def rebuild(self, target_context, payload):
        stored_hash, *code = payload
        return super().rebuild(target_context, code) if stored_hash == SOURCES_HASH else None


class _KernelCache(FunctionCache):
    _impl_class = _HashedCode
