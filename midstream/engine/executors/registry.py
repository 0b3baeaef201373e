"""All kinds of executors. A new one is a file beside this one and an entry here."""

from __future__ import annotations

from midstream.engine.executors.protocol import ExecutorKind
from midstream.engine.executors.tree import Tree
from midstream.errors import EngineError, did_you_mean, shown

EXECUTORS: tuple[ExecutorKind, ...] = (Tree(),)


def executor_names() -> tuple[str, ...]:
    """What users call them; the first one is the default."""
    return tuple(kind.name for kind in EXECUTORS)


def find_executor(name: str, call: str) -> ExecutorKind:
    """The kind that users call so.

    >>> find_executor("tree", "engine").name
    'tree'
    """
    names = executor_names()
    if isinstance(name, str) and name in names:
        return EXECUTORS[names.index(name)]
    hint = did_you_mean(name, names)
    raise EngineError(f"{call}: unknown executor {shown(name)}; {hint}executors: {', '.join(names)}")
