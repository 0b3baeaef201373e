"""The life of an engine: what it takes now, and why it takes no more."""

from __future__ import annotations

import enum

_GO_ON = "go on with Engine.restore from a snapshot"


class Life(enum.Enum):
    """Where an engine stands; the text says why it takes no call now, and what would be right."""

    OPEN = "open"
    PUSHING = "a push is under way: take the pieces of push_batches to the end before the next call"
    FINISHED = f"finished: this engine takes no more rows; make a new one, or {_GO_ON}"
    LEFT = f"closed, because its with block has ended; make a new one, or {_GO_ON}"
    ABANDONED = "closed, because push_batches was not taken to its end; go on with Engine.restore"
    BROKEN = f"closed, because a call broke off; {_GO_ON}"

    @property
    def has_ended_well(self) -> bool:
        """Whether it was closed on purpose, so that what it has set aside may still be fetched."""
        return self in (Life.FINISHED, Life.LEFT)

    def reason(self, problem: str = "") -> str | None:
        """Why it takes no call, with the error that a call broke off by; None if it is open.

        >>> Life.BROKEN.reason("MemoryError")
        'closed, because a call broke off (MemoryError); go on with Engine.restore from a snapshot'
        """
        if self is Life.OPEN:
            return None
        told = str(self.value)
        return told.replace("; ", f" ({problem}); ", 1) if problem else told


def problem_text(problem: BaseException) -> str:
    """An error in words. Not the error itself is kept, because it would keep the frames that it came through."""
    return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
