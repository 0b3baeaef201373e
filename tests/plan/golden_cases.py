"""Golden files of this folder: a comment, then blocks of ``key: value`` lines under a title in brackets."""

from __future__ import annotations

import re
from pathlib import Path

_TITLE = re.compile(r"^\[(.+)\]$", re.MULTILINE)


def golden_cases(name: str) -> dict[str, dict[str, str]]:
    """Title -> key -> value. A picture is the last of its block and takes all the lines that follow."""
    text = (Path(__file__).parent / "golden" / name).read_text(encoding="utf-8")
    pieces = _TITLE.split(text)[1:]
    return {title: _fields(block) for title, block in zip(pieces[::2], pieces[1::2], strict=True)}


def _fields(block: str) -> dict[str, str]:
    head, _, picture = block.strip("\n").partition("\npicture:\n")
    fields = {"picture": picture}
    for line in head.split("\n"):
        key, _, value = line.partition(":")
        fields[key] = value.removeprefix(" ")
    return fields
