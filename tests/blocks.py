"""Blocks of seeds: a few of them in every test run, the others among the slow tests.

How many are quick is decided by the time that a test run may take, twelve minutes on two processors.
"""

from __future__ import annotations

from typing import Any

import pytest


def blocks(count: int, quick: int = 24) -> list[Any]:
    """The numbers of so many blocks, to parametrise a test with; one in `quick` of them is quick, the rest slow."""
    return [pytest.param(block, marks=[] if block % quick == 0 else pytest.mark.slow) for block in range(count)]
