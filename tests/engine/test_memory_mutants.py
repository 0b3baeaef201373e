"""What is easy to get wrong in evicting and switching off: each mistake is made on purpose, and is caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from midstream.engine.executors import tree
from midstream.engine.joins import evicting, filling, nodes
from midstream.state.missing import Box, Cause, Missing

from .small import CASES
from .test_memory_limit import check_limits

Patch = Callable[[pytest.MonkeyPatch], None]


def forget_the_box_before(patch: pytest.MonkeyPatch) -> None:
    """A further eviction puts its box in place of the last one, and does not take the rows of that again."""
    patch.setattr(Box, "all_missing", lambda box, number, head: np.empty(0, np.int64))


def keep_old_marks(patch: pytest.MonkeyPatch) -> None:
    """The box of a further eviction keeps the marks of the first: newer combinations are lost."""
    replace = Missing.replace

    def keeping(missing: Missing, gone: Any, box: Box, heads: Any) -> None:
        for other in gone:
            box.marks = {number: min(mark, other.marks[number]) for number, mark in box.marks.items()}
        replace(missing, gone, box, heads)

    patch.setattr(Missing, "replace", keeping)


def come_back_complete(patch: pytest.MonkeyPatch) -> None:
    """A state that is switched on again is taken for complete."""
    patch.setattr(tree, "switch_on", lambda node, *_: setattr(node, "is_off", False))


def read_states_that_are_off(patch: pytest.MonkeyPatch) -> None:
    """Probes look into a state that is off, and find it empty."""
    lacks = nodes.JoinNode.is_probed_by_route.fget
    assert lacks is not None

    def ask(node: nodes.JoinNode) -> bool:
        return not node.is_off and lacks(node)

    patch.setattr(nodes.JoinNode, "is_probed_by_route", property(ask))


def fill_from_states_that_are_off(patch: pytest.MonkeyPatch) -> None:
    """A state is filled from what a child that is off holds: nothing."""
    leads = filling.Filler._leads_to_entries

    def ask(filler: filling.Filler, child: nodes.JoinNode, number: int) -> bool:
        was_off, child.is_off = child.is_off, False
        try:
            return leads(filler, child, number)
        finally:
            child.is_off = was_off

    patch.setattr(filling.Filler, "_leads_to_entries", ask)


def evict_without_a_box(patch: pytest.MonkeyPatch) -> None:
    """Entries are dropped, and nothing says that they are missing."""
    patch.setattr(Missing, "replace", lambda *_: None)


def empty_without_a_box(patch: pytest.MonkeyPatch) -> None:
    """All entries are dropped, and nothing says that they are missing."""

    def declare(node: nodes.JoinNode, cause: Cause, *rest: Any) -> None:
        if cause.kind != "eviction":
            declared(node, cause, *rest)

    declared = evicting.declare_missing
    patch.setattr(evicting, "declare_missing", declare)


MUTANTS: tuple[Patch, ...] = (
    forget_the_box_before,
    keep_old_marks,
    come_back_complete,
    read_states_that_are_off,
    fill_from_states_that_are_off,
    evict_without_a_box,
    empty_without_a_box,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mistakes_can_be_made(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they change has not been renamed."""
    mutant(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mistakes_are_caught(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    with pytest.raises((AssertionError, IndexError, KeyError)):
        check_many()


def check_many() -> None:
    for seed in range(20):
        for small in CASES:
            check_limits(small, seed)
