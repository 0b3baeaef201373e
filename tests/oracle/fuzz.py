"""Endless random checks: ``python -m tests.oracle.fuzz``.

Every case runs in all ways on executors drawn at random, and then through migrations, between executors too.
Without arguments it runs until it is stopped or finds a failure, which it then makes small and prints. ``--seed N``
replays one case, ``--cases N`` stops after so many, ``--start N`` says where to begin.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from typing import Any

from midstream.engine.executors.registry import executor_names

from ..migrate.changes import MIXED
from ..migrate.migrating import Tally, check_seed
from .cases import make_case
from .check import check_batchings, check_oracles, everything, on_executor
from .report import describe
from .run import Mismatch, Way, expect, make_query, run
from .shrink import shrink
from .spec import Case

PROGRESS_SECONDS = 5.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="replay one case")
    parser.add_argument("--cases", type=int, help="stop after so many cases")
    parser.add_argument("--start", type=int, help="the first seed (default: from the clock)")
    parser.add_argument("--keep-going", action="store_true", help="list failing seeds instead of stopping at one")
    parser.add_argument("--shrink-seconds", type=float, default=60.0, help="how long to look for a smaller case")
    for name in ("kind", "windows", "watermarks", "time"):
        parser.add_argument(f"--{name}", help=f"fix the {name} of the cases")
    for name in ("inputs", "rows"):
        parser.add_argument(f"--{name}", type=int, help=f"fix the number of {name} of the cases")
    parser.add_argument("--big", action="store_true", default=None, help="only big cases")
    parser.add_argument("--self-join", action="store_true", default=None, help="only with a stream under two aliases")
    parser.add_argument("--odd-names", action="store_true", default=None, help="only with names like the engine's own")
    parser.add_argument("--ties", action="store_true", default=None, help="only with many rows at one moment")
    parser.add_argument("--ahead", action="store_true", default=None, help="only with rows far ahead of the others")
    given = parser.parse_args(arguments)
    names = (
        "kind",
        "windows",
        "watermarks",
        "time",
        "inputs",
        "rows",
        "big",
        "self_join",
        "ties",
        "odd_names",
        "ahead",
    )
    shape = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    start = given.start if given.start is not None else time.time_ns() // 1_000_000 % 10**9 * 1000
    if given.seed is not None:
        start, given.cases = given.seed, 1
    try:
        return _loop(start, given.cases, shape, given.keep_going, given.shrink_seconds)
    except KeyboardInterrupt:
        print("\nstopped")
        return 0


def _loop(start: int, cases: int | None, shape: dict[str, Any], keep_going: bool, shrink_seconds: float) -> int:
    began = shown = time.monotonic()
    done = runs = failures = 0
    while cases is None or done < cases:
        seed = start + done
        case = make_case(seed, **shape)
        failure = _check(case)
        done += 1
        if isinstance(failure, int):
            runs += failure
        elif keep_going:
            failures += 1
            print(f"seed {seed}: {str(failure[1]).splitlines()[0][:200]}", flush=True)
        else:
            _report(case, *failure, shrink_seconds)
            return 1
        if time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            rate = done / (shown - began)
            print(f"{done} cases, {runs} runs, {rate:.1f} cases/s, next seed {seed + 1}", flush=True)
    print(f"{done} cases, {runs} runs, {failures} failures, {time.monotonic() - began:.1f} s")
    return 1 if failures else 0


def _check(case: Case) -> int | tuple[tuple[Case, Way] | None, Exception]:
    """The number of runs, or what failed first."""
    failing: tuple[Case, Way] | None = None
    try:
        expected = check_oracles(case)
        check_batchings(case)
        query = make_query(case)
        runs = 0
        rng = random.Random(f"executors {case.seed}")
        for cut, drawn in everything(case, random.Random(f"ways {case.seed}")):
            way = on_executor(drawn, rng.choice(executor_names()), case.seed)
            failing = (cut, way)
            run(cut, expected, [way], query)
            runs += 1
        failing = None
        migrations = Tally()
        check_seed(case.seed, MIXED, migrations)
        runs += migrations.runs
    except Exception as error:
        return failing, error
    return runs


def _report(case: Case, failing: tuple[Case, Way] | None, error: Exception, seconds: float) -> None:
    if failing is None:
        print(describe(case, "before any run"))
        traceback.print_exception(error)
        return
    cut, way = failing
    first_line = str(error).splitlines()[0] if str(error) else repr(error)
    print(f"seed {case.seed} fails: {first_line}\n{way.text()}; looking for less", flush=True)

    def fails(candidate: Case) -> bool:
        return _failure(candidate, way, type(error)) is not None

    small = shrink(cut, fails, seconds)
    found = _failure(small, way, type(error)) or error
    print(f"\n{'=' * 100}\nsmallest failing case found:\n")
    if isinstance(found, Mismatch):
        print(found)
    else:
        print(describe(small, way.text()))
        traceback.print_exception(found)


def _failure(case: Case, way: Way, kind: type[Exception]) -> Exception | None:
    try:
        run(case, expect(case), [way])
    except kind as error:
        return error
    except Exception:
        return None
    return None


if __name__ == "__main__":
    sys.exit(main())
