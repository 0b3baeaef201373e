"""JISC, section 5: how many states are complete right after two streams of a left-deep plan exchange their places.

Positions are drawn as the paper's model says, close ones more often. For some draws both plans are built and their
common states counted, so that it is the plans that answer and not the formula once more.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.adapt.completeness import expected_complete_states, probability_of_distance, variance_of_complete_states
from midstream.lab.definition import Experiment, Outcome, Progress, Settings, WrongAnswer, verdict
from midstream.lab.experiments.jisc_streams import PAPER
from midstream.plan.nodes import Join, Leaf, Node
from midstream.plan.tree import Plan

_JOINS = (2, 5, 10, 20, 50, 100, 150, 200)
#: Standard errors by which a mean of so many draws may be off; a run has two figures for each number of joins.
_ERRORS = 4.0


def run(settings: Settings, progress: Progress) -> Outcome:
    draws = settings.size(200_000, 2_000_000, least=5_000)
    built = settings.size(200, 2_000, least=20)
    joins = settings.points(_JOINS)
    rng = np.random.default_rng(settings.seed)
    progress.total(len(joins))
    rows: list[dict[str, Any]] = []
    for number in joins:
        progress.step(f"{number} joins")
        pairs = _draw(rng, number, draws)
        complete = number - (pairs[:, 1] - pairs[:, 0])
        for (low, high), expected in zip(pairs[:built].tolist(), complete[:built].tolist(), strict=True):
            _require_complete(number, low, high, expected)
        mean, variance = float(expected_complete_states(number)), float(variance_of_complete_states(number))
        centred: npt.NDArray[np.float64] = (complete.astype(np.float64) - mean) ** 2
        rows.append(
            {
                "joins": number,
                "draws": draws,
                "mean": float(complete.mean()),
                "mean, closed form": mean,
                "mean, errors off": _errors_off(complete.astype(np.float64), mean),
                "variance": float(centred.mean()),
                "variance, closed form": variance,
                "variance, errors off": _errors_off(centred, variance),
                "share complete": mean / number,
            }
        )
        progress.advance()
    return _outcome(pa.Table.from_pylist(rows))


def _draw(rng: np.random.Generator, joins: int, draws: int) -> npt.NDArray[np.int64]:
    """Pairs of positions, low and high: first how far apart they are, then where."""
    distances = np.arange(1, joins)
    weights = np.array([float(probability_of_distance(joins, int(distance))) for distance in distances])
    apart = rng.choice(distances, draws, p=weights / weights.sum())
    low = rng.integers(1, joins - apart + 1)
    return np.stack((low, low + apart), axis=1)


def _require_complete(joins: int, low: int, high: int, expected: int) -> None:
    order = list(range(joins + 1))
    old = {node.inputs for node in _left_deep(order).joins()}
    order[low], order[high] = order[high], order[low]
    found = sum(node.inputs in old for node in _left_deep(order).joins())
    if found != expected:
        raise WrongAnswer(f"positions {low} and {high} of {joins} joins: {found} complete states, not {expected}")


def _left_deep(order: list[int]) -> Plan:
    tree: Node = Leaf(order[0])
    for number in order[1:]:
        tree = Join(tree, Leaf(number))
    return Plan(tuple(f"S{number}" for number in range(len(order))), tree)


def _errors_off(values: npt.NDArray[np.float64], expected: float) -> float:
    """How many standard errors the mean of the values is away from what is expected."""
    error = float(values.std()) / np.sqrt(len(values))
    return abs(float(values.mean()) - expected) / error if error else 0.0


def _outcome(rows: pa.Table) -> Outcome:
    off = max(rows["mean, errors off"].to_pylist() + rows["variance, errors off"].to_pylist())
    shares = rows["share complete"].to_pylist()
    problems = []
    if off > _ERRORS:
        problems.append(f"a mean or variance is {off:.1f} standard errors away from the closed form")
    if any(later <= earlier for earlier, later in pairwise(shares)):
        problems.append("the share of complete states does not grow")

    def plot(axes: Any) -> None:
        joins = rows["joins"].to_pylist()
        drawn = [mean / number for mean, number in zip(rows["mean"].to_pylist(), joins, strict=True)]
        axes.plot(joins, shares, label="closed form")
        axes.plot(joins, drawn, "o", label="Monte Carlo")
        axes.axhline(1, color="grey", linewidth=0.8)
        axes.set(xlabel="joins", ylabel="complete states, share of all", ylim=(0, 1.05))
        axes.legend()

    figure = (
        f"closed form and Monte Carlo at most {off:.1f} standard errors apart; "
        f"{shares[-1]:.1%} of the states complete at {rows['joins'][-1].as_py()} joins, and growing"
    )
    return Outcome(rows, rows, (plot,), verdict(not problems), figure, "; ".join(problems), True)


ANALYSIS = Experiment(
    "jisc-analysis",
    "Complete states after a random exchange",
    PAPER,
    "mean and variance of the number of complete states are the closed form's, and their share tends to 1",
    run,
)
