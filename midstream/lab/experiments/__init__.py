"""The papers' experiments and some of our own: one module per family, one entry here for each."""

from midstream.lab.definition import Experiment, LabError
from midstream.lab.experiments.genmig import GENMIG_FIGURE_4, GENMIG_FIGURE_5
from midstream.lab.experiments.genmig_distinct import GENMIG_DISTINCT
from midstream.lab.experiments.genmig_saturated import GENMIG_FIGURE_6
from midstream.lab.experiments.jisc_analysis import ANALYSIS
from midstream.lab.experiments.jisc_frequency import FIGURE_11, FIGURE_12
from midstream.lab.experiments.jisc_latency import FIGURE_10
from midstream.lab.experiments.jisc_normal import FIGURE_9
from midstream.lab.experiments.jisc_stage import FIGURE_7, FIGURE_8
from midstream.lab.experiments.jit_figures import JIT_FIGURES
from midstream.lab.experiments.memory_time import MEMORY_TIME
from midstream.lab.experiments.stairs_random import STAIRS_FIGURE_8
from midstream.lab.experiments.stairs_reversed import STAIRS_FIGURE_9
from midstream.lab.experiments.stairs_tpch import STAIRS_FIGURE_7
from midstream.lab.experiments.zhu_compared import ZHU_FIGURE_11, ZHU_FIGURE_12
from midstream.lab.experiments.zhu_over_time import ZHU_FIGURE_13, ZHU_FIGURE_14, ZHU_FIGURE_15, ZHU_FIGURE_16
from midstream.lab.experiments.zhu_stage import ZHU_FIGURE_9, ZHU_FIGURE_10

EXPERIMENTS: tuple[Experiment, ...] = (
    FIGURE_7,
    FIGURE_8,
    FIGURE_9,
    FIGURE_10,
    FIGURE_11,
    FIGURE_12,
    ANALYSIS,
    ZHU_FIGURE_9,
    ZHU_FIGURE_10,
    ZHU_FIGURE_11,
    ZHU_FIGURE_12,
    ZHU_FIGURE_13,
    ZHU_FIGURE_14,
    ZHU_FIGURE_15,
    ZHU_FIGURE_16,
    GENMIG_FIGURE_4,
    GENMIG_FIGURE_5,
    GENMIG_FIGURE_6,
    GENMIG_DISTINCT,
    *JIT_FIGURES,
    STAIRS_FIGURE_7,
    STAIRS_FIGURE_8,
    STAIRS_FIGURE_9,
    MEMORY_TIME,
)


def find_experiment(id: str) -> Experiment:
    """The experiment of this name."""
    for experiment in EXPERIMENTS:
        if experiment.id == id:
            return experiment
    raise LabError(
        f"lab: unknown experiment {id!r}; experiments: {', '.join(experiment.id for experiment in EXPERIMENTS)}"
    )


__all__ = ["EXPERIMENTS", "find_experiment"]
