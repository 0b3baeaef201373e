"""Reordered differences: ``((a minus b) minus c)`` may be ``((a minus c) minus b)``.

The condition: all of them are EXCEPT, or all are EXCEPT ALL, one subtracted after the other from the same side. With
EXCEPT a row stays if none of the others has it, with EXCEPT ALL as often as it is there less all that the others have:
neither depends on the order. Mixed, it does. If a has a row twice, b once, and c not at all::

    (a EXCEPT ALL b) EXCEPT c      has it once
    (a EXCEPT c) EXCEPT ALL b      does not have it
"""

from __future__ import annotations

from collections.abc import Callable

from midstream.cql.model import Combination, SetOperation


class ReorderedDifferences:
    """The rule, as `plan.fitting` asks it."""

    name = "reordered differences"

    def take_apart(self, operation: SetOperation) -> tuple[Combination, list[Combination]]:
        """What is subtracted from, and what may be subtracted in any order, in the order of the text.

        >>> chain = SetOperation("except", False, SetOperation("except", False, 0, 1), 2)
        >>> ReorderedDifferences().take_apart(chain)
        (0, [1, 2])
        >>> mixed = SetOperation("except", True, SetOperation("except", False, 0, 1), 2)
        >>> ReorderedDifferences().take_apart(mixed)[1]
        [2]
        """
        subtracted: list[Combination] = [operation.right]
        base = operation.left
        while (
            operation.kind == "except"
            and isinstance(base, SetOperation)
            and base.kind == "except"
            and base.is_all == operation.is_all
        ):
            subtracted.insert(0, base.right)
            base = base.left
        return base, subtracted

    def reorder(
        self, operation: SetOperation, is_next: Callable[[Combination], bool]
    ) -> tuple[Combination, Combination]:
        """The two sides of an operation such that the right one is what comes last, if there is such a side.

        >>> chain = SetOperation("except", False, SetOperation("except", False, 0, 1), 2)
        >>> left, right = ReorderedDifferences().reorder(chain, lambda side: side == 1)
        >>> left.left, left.right, right
        (0, 2, 1)
        """
        base, subtracted = self.take_apart(operation)
        last = next((side for side in subtracted if is_next(side)), operation.right)
        left = base
        for side in subtracted:
            if side is not last:
                left = SetOperation(operation.kind, operation.is_all, left, side)
        return left, last
