"""STAIRs, figure 8: random set-ups, each by a tree, SteMs, EddyJoins and STAIRs from the same random first plan.

What is compared is counted work, which no load of the machine changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.lab.definition import Experiment, Outcome, Plot, Progress, Settings, verdict
from midstream.lab.experiments.stairs_lanes import EDDY, PAPER, STAGED, STEMS, Cost, costs_of, race
from midstream.lab.experiments.stairs_setups import Setup, draw_setup, make_relations
from midstream.lab.race import Contender

SHJ = Contender("SHJ")
_CONTENDERS = (SHJ, STEMS, EDDY, STAGED)
_OTHERS = (SHJ.name, STEMS.name, EDDY.name)
_BEST = "the best of them"
#: Of so many set-ups STAIRs' work should be within a factor of EddyJoins', and of the best of the others.
_SHARE, _OF_EDDY, _OF_BEST = 0.95, 1.1, 1.25
_WORST_OF_EDDY = 1.5
#: Set-ups that look at fewer entries say nothing.
_ANYTHING = 1_000


@dataclass(frozen=True)
class _Run:
    """A set-up, how many results it has, and what each contender needed."""

    setup: Setup
    results: int
    costs: dict[str, Cost]

    def relative(self, name: str) -> float:
        """STAIRs' counted work as a multiple of another's."""
        own = self.costs[STAGED.name].visited + _ANYTHING
        others = self.costs.values() if name == _BEST else (self.costs[name],)
        return own / (min(cost.visited for cost in others) + _ANYTHING)


def run(settings: Settings, progress: Progress) -> Outcome:
    setups = settings.size(60, 475, least=4)
    scale = min(1.0, settings.scale)
    push = settings.size(2_000, 2_000, least=100)
    progress.total(setups)
    runs = []
    for number in range(setups):
        setup = draw_setup(1_000 * settings.seed + number, scale)
        progress.step(f"set-up {number}, {setup.shape}, {sum(setup.sizes):,} rows")
        relations = make_relations(setup, push)
        starts = [(contender, setup.plan) for contender in _CONTENDERS]
        points = race(relations, starts, setup.seed, f"set-up {number}, {setup.plan}")
        runs.append(_Run(setup, relations.answer.rows, costs_of(points)))
        progress.advance()
    return _outcome(runs)


def _outcome(runs: Sequence[_Run]) -> Outcome:
    ratios = {name: np.array([run.relative(name) for run in runs]) for name in (*_OTHERS, _BEST)}
    table = pa.table(
        {
            "STAIRs beside": list(ratios),
            "ahead by over 10 %": [float((found < 1 / 1.1).mean()) for found in ratios.values()],
            "within 10 %": [float(((found >= 1 / 1.1) & (found <= 1.1)).mean()) for found in ratios.values()],
            "behind by over 10 %": [float((found > 1.1).mean()) for found in ratios.values()],
            "median": [float(np.median(found)) for found in ratios.values()],
            "95 % within": [float(np.quantile(found, _SHARE)) for found in ratios.values()],
            "worst": [float(found.max()) for found in ratios.values()],
            "best": [float(found.min()) for found in ratios.values()],
        }
    )
    eddy, best = (float(np.quantile(ratios[name], _SHARE)) for name in (EDDY.name, _BEST))
    worst_eddy, worst = float(ratios[EDDY.name].max()), float(ratios[_BEST].max())
    problems = []
    if eddy > _OF_EDDY:
        problems.append(f"95 % of the set-ups are within {eddy:.2f} times EddyJoins' work, and not {_OF_EDDY} times")
    if worst_eddy > _WORST_OF_EDDY:
        problems.append(f"the worst set-up takes {worst_eddy:.2f} times EddyJoins' work, over {_WORST_OF_EDDY} times")
    if best > _OF_BEST:
        problems.append(
            f"95 % are within {best:.2f} times the work of the best of the others, and not {_OF_BEST} times"
        )
    figure = (
        f"95 % of {len(runs)} set-ups are within {eddy:.2f} times EddyJoins' counted work, the worst {worst_eddy:.2f}; "
        f"within {best:.2f} times that of the best of SHJ, SteMs and EddyJoins, the worst {worst:.2f}"
    )
    plots = tuple(_draw_ratios(name, ratios[name]) for name in _OTHERS)
    return Outcome(_rows(runs), table, plots, verdict(not problems), figure, "; ".join(problems), True)


def _draw_ratios(name: str, ratios: np.ndarray) -> Plot:
    """How many times the other's work is STAIRs', or the other way round, in the order of what STAIRs gain."""

    def draw(axes: Any) -> None:
        gains = np.sort(1 / ratios)
        is_ahead = gains >= 1
        heights = np.maximum(gains, 1 / gains)
        places = np.arange(len(gains))
        axes.bar(places[is_ahead], heights[is_ahead] - 1, bottom=1, color="dimgrey", width=1, label="STAIRs do less")
        axes.bar(places[~is_ahead], heights[~is_ahead] - 1, bottom=1, color="lightgrey", width=1, label="they do more")
        axes.set_yscale("log")
        axes.set(xlabel="set-ups", ylabel=f"ratio of counted work, {name} and STAIRs")
        axes.legend()

    return draw


def _rows(runs: Sequence[_Run]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "seed": run.setup.seed,
                "shape": run.setup.shape,
                "rows": sum(run.setup.sizes),
                "plan": run.setup.plan,
                "results": run.results,
                "contender": name,
                "slots_visited": round(cost.visited),
                "seconds": cost.seconds,
            }
            for run in runs
            for name, cost in run.costs.items()
        ]
    )


STAIRS_FIGURE_8 = Experiment(
    "stairs-fig8",
    "Random set-ups",
    PAPER,
    "STAIRs do within 1.1 times EddyJoins' work in 95 % of the set-ups, 1.5 times at worst, and within 1.25 times the "
    "best of SHJ, SteMs and EddyJoins in 95 %",
    run,
)
