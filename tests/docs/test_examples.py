"""Documents that run: the code blocks of a page, in one namespace, and the output shown under them."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Pages that take longer than a few seconds, and are not where a newcomer begins.
SLOW = {
    "docs/how-to/coming-from-spark.md",
    "docs/how-to/join-streams-on-spark.md",
    "docs/how-to/restart-a-spark-job.md",
}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages_with_code() -> Iterator[Any]:
    """Pages that run; those that need Spark share a process, and so a JVM, with each other and with its tests."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if "```python\n" in text:
            marks = [pytest.mark.xdist_group("spark")] if "from pyspark" in text else []
            marks += [pytest.mark.slow] if name(page) in SLOW else []
            yield pytest.param(page, id=name(page), marks=marks)


@pytest.mark.parametrize("page", list(pages_with_code()))
def test_code_runs_and_prints_what_the_page_shows(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "example"}
    printed: str | None = None
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        language, body = block.groups()
        line = text.count("\n", 0, block.start()) + 1
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * line + body, str(page), "exec"), namespace)
            printed = out.getvalue()
        elif language == "text" and printed is not None:
            assert printed == body, f"the output at line {line}"
            printed = None


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if "://" in target:
            continue
        found = page.parent / target if target else page
        assert found.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(found), f"{target} has no heading #{anchor}"


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as a browser of the repository makes them."""
    headings = HEADING.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
