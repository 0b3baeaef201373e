"""Blocks of seeds: a twelfth of them in every test run, the others among the slow tests."""

from __future__ import annotations

from typing import Any

import pytest

QUICK = 12


def blocks(count: int) -> list[Any]:
    """The numbers of so many blocks, to parametrise a test with; all but every twelfth are slow."""
    return [pytest.param(block, marks=[] if block % QUICK == 0 else pytest.mark.slow) for block in range(count)]
