"""Replays seeds of the contract suite: ``python -m tests.migrate.replay --strategy mixed --seed 700123``."""

from __future__ import annotations

import argparse
import sys

from .changes import MIXED, NAMES
from .migrating import Tally, check_seed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.migrate.replay", description=__doc__.splitlines()[0])
    parser.add_argument("--strategy", choices=[*NAMES, MIXED], default=MIXED)
    parser.add_argument("--seed", type=int, required=True, help="the first seed")
    parser.add_argument("--cases", type=int, default=1, help="how many seeds")
    parser.add_argument("--big", action="store_true", default=None, help="only big cases")
    given = parser.parse_args(arguments)
    tally, failures = Tally(), 0
    for seed in range(given.seed, given.seed + given.cases):
        try:
            check_seed(seed, given.strategy, tally, given.big)
        except AssertionError as failure:
            failures += 1
            print(failure, "\n")
    made, refused = sum(tally.made.values()), sum(tally.refused.values())
    print(f"{tally.cases} cases, {made} migrations, {refused} refused, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
