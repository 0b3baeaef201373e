"""All kinds of executors. A new one is a file beside this one and an entry here."""

from __future__ import annotations

from midstream.engine.executors.eddy.executor import Eddy, Stairs
from midstream.engine.executors.protocol import ExecutorKind
from midstream.engine.executors.stems import Stems
from midstream.engine.executors.tree import Tree
from midstream.errors import EngineError, did_you_mean, shown

EXECUTORS: tuple[ExecutorKind, ...] = (Tree(), Stems(), Eddy(), Stairs())


def executor_names() -> tuple[str, ...]:
    """What users call them; the first one is the default."""
    return tuple(kind.name for kind in EXECUTORS)


def find_executor(executor: str | ExecutorKind, call: str) -> ExecutorKind:
    """The kind that users call so; one that is given itself need not be among those that have a name.

    >>> find_executor("stems", "engine").name
    'stems'
    >>> find_executor("stem", "engine")
    Traceback (most recent call last):
    midstream.errors.EngineError: engine: unknown executor 'stem'; did you mean 'stems'? executors: tree, stems, eddy,
    stairs
    """
    if isinstance(executor, ExecutorKind):
        return executor
    names = executor_names()
    if isinstance(executor, str) and executor in names:
        return EXECUTORS[names.index(executor)]
    hint = did_you_mean(executor, names)
    raise EngineError(f"{call}: unknown executor {shown(executor)}; {hint}executors: {', '.join(names)}")
