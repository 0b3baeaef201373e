"""Rules of the house that no linter knows: strategies are listed once, and modules differ from their rooms."""

from __future__ import annotations

import ast
from pathlib import Path

import midstream
from midstream.migrate import STRATEGIES

ROOT = Path(midstream.__file__).parent
NAMES = {strategy.name for strategy in STRATEGIES}


def named_in(path: Path) -> list[str]:
    """Texts of a module that are the name of a strategy."""
    text = path.read_text()
    if not any(name in text for name in NAMES):
        return []
    return [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant) and node.value in NAMES]


def test_strategies_are_listed_once() -> None:
    strategies = ROOT / "migrate" / "strategies"
    modules = [path for path in ROOT.rglob("*.py") if path.parent != strategies]
    assert len(modules) > 100
    assert {str(path.relative_to(ROOT)): found for path in modules if (found := named_in(path))} == {}
    assert sum(len(named_in(path)) for path in strategies.glob("*.py")) == len(NAMES)


def test_no_module_has_the_name_of_its_room() -> None:
    """Nor one that differs by an s: whoever reads an import could not tell which of the two is meant."""
    named = [path for path in ROOT.rglob("*.py") if path.stem.rstrip("s") == path.parent.name.rstrip("s")]
    assert named == []
