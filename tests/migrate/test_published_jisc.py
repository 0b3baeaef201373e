"""Seven stories in which the published JISC, in one reading or another, loses, repeats or invents a result.

docs/concepts/published-jisc.md tells what goes wrong in each. Budget 0 is pure JISC: only probes fill.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from .stories import find_expected, make_engine, run


@dataclass(frozen=True)
class Counterexample:
    """`result` is the one that goes wrong there; it comes with the last row, `times` times."""

    name: str
    plan: str
    story: str
    result: str
    times: int = 1
    windows: dict[str, int] | None = None

    @property
    def streams(self) -> str:
        return "".join(letter for letter in self.plan if letter.isalpha())


COUNTEREXAMPLES = (
    Counterexample("the state has the key", "((R T) S)", "r1 s1 -> ((R S) T) -> r2 t1", "r1 s1 t1"),
    Counterexample("attempted by another stream", "((S T) R)", "t1 r1 -> ((T R) S) -> r2 s1", "r1 s1 t1"),
    Counterexample("stored twice", "((S T) R)", " -> ((T R) S) -> t1 r1 s1", "r1 s1 t1"),
    Counterexample(
        "seen, but expired",
        "((T (U S)) R)",
        "t1@18 s1@20 -> ((S T) (U R)) -> u1@22 r1@25 u2@26",
        "r1 s1 t1 u2",
        windows={"R": 2, "S": 8, "T": 8, "U": 2},
    ),
    Counterexample(
        "counting the wrong keys",
        "((S T) R)",
        "t1:k1 r1:k1 -> ((T R) S) -> t2:k0 r2:k0 s1:k0 s2:k1",
        "r1 s2 t1",
    ),
    Counterexample(
        "complete because its children are",
        "((S V) (T (R U)))",
        "u1 v1 r1 t1 -> (((R T) (V U)) S) -> u2 r2 s1",
        "r1 s1 t1 u1 v1",
    ),
    Counterexample(
        "removal stops too early",
        "(((S T) U) R)",
        "s1@12 u1@13 t1@15 -> (((U T) S) R) -> u2@19 r1@23",
        "r1 s1 t1 u1",
        times=0,
        windows={"R": 2, "S": 16, "T": 8, "U": 8},
    ),
)


@pytest.mark.parametrize("example", COUNTEREXAMPLES, ids=lambda example: example.name)
@pytest.mark.parametrize("budget", [0, 1, None])
def test_results_are_those_of_the_definition(example: Counterexample, budget: int | None) -> None:
    found = run(make_engine(example.plan, example.windows), example.story, "jisc", budget)
    assert found == find_expected(example.story, example.streams, example.windows)
    assert found[-1].count(example.result) == example.times


@pytest.mark.parametrize("example", COUNTEREXAMPLES, ids=lambda example: example.name)
@pytest.mark.parametrize("strategy", ["moving-state", "parallel-track", "genmig", "genmig-reference-point"])
def test_so_they_are_under_other_strategies(example: Counterexample, strategy: str) -> None:
    found = run(make_engine(example.plan, example.windows), example.story, strategy)
    assert found == find_expected(example.story, example.streams, example.windows)
