"""Tells that kernels are being compiled, and how far that is.

It takes about a minute, once per installation, and without a word it would look as if the first engine hung. On a
terminal it is one line that counts up; elsewhere (notebooks, logs of a job) a few lines through `logging`, at a level
that Python shows by default. If all kernels come from the cache, nothing is said.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from numba.core import event as numba_events
from numba.core.registry import CPUDispatcher

from midstream import kernels

_logger = logging.getLogger("midstream")
_SAYING = "midstream: compiling kernels (once per installation, about a minute)"
#: Lines where they cannot be written over: the first kernel, and then so many.
_PLAIN_LINES = 4


def all_kernels() -> dict[str, Any]:
    """The compiled functions of `midstream.kernels`, by module and name, but for those that are part of others."""
    found = {}
    for module in pkgutil.iter_modules(kernels.__path__):
        for name, value in vars(importlib.import_module(f"{kernels.__name__}.{module.name}")).items():
            is_own = isinstance(value, CPUDispatcher) and value.py_func.__module__.endswith(f".{module.name}")
            if is_own and value.targetoptions.get("inline") != "always":
                found[f"{module.name}.{name}"] = value
    return found


@contextmanager
def tell_compiling(compiled: Sequence[Any], stream: TextIO | None = None) -> Iterator[None]:
    """Tell on a terminal, or else in the log, which of these kernels is compiled meanwhile."""
    teller = _Teller(compiled, stream or sys.stderr)
    with numba_events.install_listener("numba:compile", teller):
        yield
    teller.end()


class _Teller(numba_events.Listener):
    """Hears of every kernel that is compiled. One that comes from the cache is ready without a word."""

    def __init__(self, compiled: Sequence[Any], stream: TextIO):
        self._kernels = compiled
        self._stream = stream
        self._is_terminal = bool(stream.isatty())
        self._began: float | None = None
        self._said = 0

    def on_start(self, event: Any) -> None:
        dispatcher = event.data["dispatcher"]
        if not any(dispatcher is kernel for kernel in self._kernels):
            return
        if self._began is None:
            self._began = time.monotonic()
        self._say(sum(bool(kernel.signatures) or kernel is dispatcher for kernel in self._kernels))

    def on_end(self, event: Any) -> None: ...

    def _say(self, number: int) -> None:
        line = f"{_SAYING}: {number} of {len(self._kernels)}"
        if self._is_terminal:
            self._stream.write(f"\r{line}")
            self._stream.flush()
        elif not self._said or number >= self._said + len(self._kernels) / _PLAIN_LINES:
            self._said = number
            _logger.warning("%s", line)

    def end(self) -> None:
        """All that were wanted are ready."""
        if self._began is None:
            return
        line = f"midstream: kernels compiled in {time.monotonic() - self._began:.0f} s; the next start finds them ready"
        if self._is_terminal:
            self._stream.write(f"\r{line:<{len(_SAYING) + 16}}\n")
            self._stream.flush()
        else:
            _logger.warning("%s", line)
