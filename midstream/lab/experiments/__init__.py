"""The papers' experiments: one module per family, one entry here for each."""

from midstream.lab.experiment import Experiment, LabError

EXPERIMENTS: tuple[Experiment, ...] = ()


def experiment(id: str) -> Experiment:
    """The experiment of this name."""
    for one in EXPERIMENTS:
        if one.id == id:
            return one
    raise LabError(f"lab: unknown experiment {id!r}; experiments: {', '.join(one.id for one in EXPERIMENTS)}")


__all__ = ["EXPERIMENTS", "experiment"]
