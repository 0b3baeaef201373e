"""The papers' experiments: one module per family, one entry here for each."""

from midstream.lab.experiment import Experiment, LabError
from midstream.lab.experiments.jisc_analysis import ANALYSIS
from midstream.lab.experiments.jisc_frequency import FIGURE_11, FIGURE_12
from midstream.lab.experiments.jisc_latency import FIGURE_10
from midstream.lab.experiments.jisc_normal import FIGURE_9
from midstream.lab.experiments.jisc_stage import FIGURE_7, FIGURE_8

EXPERIMENTS: tuple[Experiment, ...] = (
    FIGURE_7,
    FIGURE_8,
    FIGURE_9,
    FIGURE_10,
    FIGURE_11,
    FIGURE_12,
    ANALYSIS,
)


def experiment(id: str) -> Experiment:
    """The experiment of this name."""
    for one in EXPERIMENTS:
        if one.id == id:
            return one
    raise LabError(f"lab: unknown experiment {id!r}; experiments: {', '.join(one.id for one in EXPERIMENTS)}")


__all__ = ["EXPERIMENTS", "experiment"]
