"""Endless random checks of queries with steps: ``python -m tests.temporal.fuzz``.

Every case runs in several ways, with migrations and restarts in between; now and then the oracle itself is checked.
Without arguments it runs until it is stopped or finds a failure, which it then makes small and prints. ``--seed N``
replays one case, ``--seconds N`` and ``--cases N`` say when to stop, ``--start N`` says where to begin.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
import time
import traceback
from collections.abc import Iterator

from ..oracle.report import describe
from ..oracle.run import Mismatch
from ..oracle.shrink import shrink
from ..oracle.spec import Case
from .cases import expect, make_case
from .check import WAYS, check_oracles
from .queries import KINDS
from .run import MODULE, Tally, check_run, make_query
from .spec import TemporalCase
from .ways import Restart, Way, can_resume, draw_way

PROGRESS_SECONDS = 5.0
ORACLES_EVERY = 20


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="replay one case")
    parser.add_argument("--cases", type=int, help="stop after so many cases")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--start", type=int, help="the first seed (default: from the clock)")
    parser.add_argument("--kind", choices=sorted(set(KINDS)), help="what stands above the join")
    parser.add_argument(
        "--scale", type=int, choices=[1], help="check the oracle alone, on times that are small integers"
    )
    parser.add_argument("--keep-going", action="store_true", help="list failing seeds instead of stopping at one")
    parser.add_argument("--shrink-seconds", type=float, default=60.0, help="how long to look for a smaller case")
    given = parser.parse_args(arguments)
    start = given.start if given.start is not None else time.time_ns() // 1_000_000 % 10**9 * 1000
    if given.seed is not None:
        start, given.cases = given.seed, 1
    try:
        return _loop(start, given)
    except KeyboardInterrupt:
        print("\nstopped")
        return 0


def _loop(start: int, given: argparse.Namespace) -> int:
    began = shown = time.monotonic()
    tally, done, failures = Tally(), 0, 0
    while (given.cases is None or done < given.cases) and (
        given.seconds is None or time.monotonic() - began < given.seconds
    ):
        seed = start + done
        if given.scale or (done + 1) % ORACLES_EVERY == 0:
            check_oracles(seed, given.kind)
        failure = None if given.scale else _check(make_case(seed, given.kind), tally)
        done += 1
        if failure is not None and given.keep_going:
            failures += 1
            print(f"seed {seed}: {(str(failure[2]) or repr(failure[2])).splitlines()[0][:200]}", flush=True)
        elif failure is not None:
            _report(*failure, given.shrink_seconds)
            return 1
        if time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            print(
                f"{done} cases, {tally['runs']} runs, {done / (shown - began):.1f} cases/s, next seed {seed + 1}",
                flush=True,
            )
    print(f"{done} cases, {failures} failures, {time.monotonic() - began:.1f} s; {dict(tally)}")
    return 1 if failures else 0


def _check(case: TemporalCase, tally: Tally) -> tuple[TemporalCase, Way | None, Exception] | None:
    """What failed first, if anything did."""
    way: Way | None = None
    try:
        expected, query = expect(case), make_query(case)
        rng = random.Random(f"ways {case.seed}")
        for _ in range(WAYS):
            way = draw_way(case.join, rng)
            check_run(case, query, expected, way, tally)
    except Exception as error:
        return case, way, error
    return None


def _report(case: TemporalCase, way: Way | None, error: Exception, seconds: float) -> None:
    if way is None:
        print(describe(case.join, "before any run", MODULE))
        traceback.print_exception(error)
        return
    print(
        f"seed {case.seed} fails: {(str(error) or repr(error)).splitlines()[0]}\n{way.text()}; looking for less",
        flush=True,
    )
    until = time.monotonic() + seconds
    simpler = _simplify(case, way, type(error), until)
    join = shrink(case.join, lambda candidate: _fails(case, candidate, simpler, type(error)) is not None, seconds)
    small = case.with_join(join)
    way = _simplify(small, simpler, type(error), until)
    found = _fails(small, small.join, way, type(error)) or error
    print(f"\n{'=' * 100}\nsmallest failing case found:\n")
    if isinstance(found, Mismatch):
        print(found)
    else:
        print(describe(small.join, f"step {small.step} us, {way.text()}", MODULE))
        traceback.print_exception(found)


def _simplify(case: TemporalCase, way: Way, kind: type[Exception], until: float) -> Way:
    """The way with as little in it as still fails."""
    is_simpler = True
    while is_simpler and time.monotonic() < until:
        is_simpler = False
        for simpler in _simpler_ways(way):
            if _fails(case, case.join, simpler, kind) is not None:
                way, is_simpler = simpler, True
                break
    return way


def _simpler_ways(way: Way) -> Iterator[Way]:
    for place in range(len(way.events)):
        yield dataclasses.replace(way, events=way.events[:place] + way.events[place + 1 :])
    plain = Way(way.plan)
    for name in ("executor", "chunk_rows", "piece_bytes", "in_pieces", "evicts", "is_tiny"):
        if getattr(way, name) != getattr(plain, name):
            yield dataclasses.replace(way, **{name: getattr(plain, name)})


def _fails(case: TemporalCase, join: Case, way: Way, kind: type[Exception]) -> Exception | None:
    candidate = case.with_join(join)
    try:
        expected = expect(candidate)
        for event in way.events:
            if isinstance(event, Restart) and event.resumes and not can_resume(join, event.before):
                return None
        check_run(candidate, make_query(candidate), expected, way, Tally())
    except kind as error:
        return error
    except Exception:
        return None
    return None


if __name__ == "__main__":
    sys.exit(main())
