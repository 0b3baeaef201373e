"""Evictions at random: any state of whatever runs, any of its inputs, any rows. No result may change by them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import midstream as ms
from midstream.engine.executors.fragmented import FragmentedExecutor
from midstream.engine.executors.tree import TreeExecutor


def trees_of(executor: Any) -> Iterator[TreeExecutor]:
    """The trees that run, also inside of migrations under way."""
    if isinstance(executor, TreeExecutor):
        yield executor
    for name in ("executor", "old", "_new"):
        if hasattr(executor, name):
            yield from trees_of(getattr(executor, name))
    if isinstance(executor, FragmentedExecutor):
        for fragment in executor.executors:
            yield from trees_of(fragment)


def evict_some(engine: ms.Engine, rng: random.Random) -> int:
    """Evict some rows of one input from one state, perhaps all; how many entries that took."""
    pipeline = engine._pipeline
    states = [(tree, node) for tree in trees_of(pipeline.executor) for node in tree.joins() if node.state is not None]
    if not states:
        return 0
    with_entries = [(tree, node) for tree, node in states if node.state is not None and len(node.state)]
    tree, node = rng.choice(with_entries or states)
    number = rng.choice(node.inputs)
    window = pipeline._windows[number]
    share = rng.choice([0.1, 0.5, 0.9, 1.0])
    rows = [row for row in range(window.head, window.tail) if rng.random() < share]
    # In any order and with rows that have left the window.
    rng.shuffle(rows)
    return tree.evict(node, number, np.array([*rows, *rows[:2], window.head - 1], np.int64))
