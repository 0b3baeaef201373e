"""Checks of users' arguments. An error names the argument, what was given, and what would be right."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from midstream.cql.durations import Duration, duration, duration_text, parse_signed_duration
from midstream.cql.model import Query
from midstream.cql.names import find_spellings, list_names
from midstream.engine.executors.eddy.executor import Eddy
from midstream.engine.executors.protocol import ExecutorKind
from midstream.engine.executors.registry import find_executor
from midstream.engine.input.intake import to_microseconds
from midstream.engine.memory.limit import read_limit
from midstream.engine.routing.choice import RoutingRecord
from midstream.engine.routing.policy import Policy
from midstream.errors import EngineError, InputError, QueryError, SparkError, did_you_mean, shown
from midstream.migrate import DEFAULT_STRATEGY, STRATEGIES
from midstream.migrate.begin import find_strategy
from midstream.options import EngineOptions
from midstream.session import Engine

#: What every DataFrame of Spark has, of a classic session or of Connect, and no DataFrame of others.
_OF_A_DATAFRAME = ("isStreaming", "sparkSession", "mapInArrow")
_NAME = re.compile(r"[A-Za-z0-9_]{1,40}")
Durations = Duration | Mapping[str, Duration]


def check_text(name: str, value: Any, right: str) -> str:
    """A text; `right` says in an error which texts are right."""
    if not isinstance(value, str):
        raise SparkError(f"{name}: {shown(value)} is not a text; give {right}")
    return value


def check_strategy(value: Any) -> str:
    """The name of a strategy."""
    name = check_text("strategy", value, f"the name of one, such as {DEFAULT_STRATEGY!r}")
    try:
        return find_strategy(name, STRATEGIES, "strategy").name
    except EngineError as problem:
        raise SparkError(str(problem)) from None


def check_limit(value: Any) -> int | None:
    """A memory limit of each cell in bytes, or none."""
    try:
        return None if value is None else read_limit(value, "spark")
    except EngineError as problem:
        raise SparkError(str(problem)) from None


def check_overload(value: Any) -> str:
    """What happens to rows that do not fit; here they can only be refused."""
    if value == "shed":
        raise SparkError(
            "overload: 'shed' is for embedded engines: Spark stores rows before a cell sees them, so that none can be "
            "dropped; leave it out, and give a larger memory_limit or more cells"
        )
    if value != "refuse":
        raise SparkError(f"overload: {shown(value)} is not available; use 'refuse'")
    return "refuse"


def check_engine(
    *, strategy: Any = None, executor: Any = "tree", routing: Any = None, seed: Any = None, **others: Any
) -> EngineOptions:
    """What the engines of all cells are told. Only names travel to them; `others` are checked as those of an engine."""
    for name, value, kind in (("executor", executor, ExecutorKind), ("routing", routing, (Policy, RoutingRecord))):
        if isinstance(value, kind):
            raise SparkError(f"{name}: {shown(value)} cannot travel to the cells; give the name of one")
    find_executor(executor, "engine")  # None is one for a restored engine alone
    chosen = None if strategy is None else check_strategy(strategy)
    return EngineOptions(strategy=chosen, executor=executor, routing=routing, seed=seed, **others)


def check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SparkError(f"{name}: {shown(value)} is neither True nor False; give one of them")
    return value


def check_count(name: str, value: Any, what: str) -> int:
    """A whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SparkError(f"{name}: {shown(value)} is not a number of {what}; give 1 or more")
    return value


def check_folder(name: str, value: Any) -> str:
    """A path, as text or as an object that stands for one."""
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise SparkError(f"{name}: {shown(value)} is not a path; give that of a folder, such as '/data/control'")
    return str(value)


def check_frames(streams: Any) -> dict[str, Any]:
    """DataFrames of one session of Spark by name."""
    if not isinstance(streams, Mapping):
        raise SparkError(f"streams: {shown(streams)} is not a dict; give DataFrames by name: {{'orders': orders, ...}}")
    if not streams:
        raise SparkError("streams: give a DataFrame for each stream of the query")
    for name, frame in streams.items():
        check_text("streams", name, "names of the query as keys")
        if not is_frame(frame):
            package = type(frame).__module__.partition(".")[0]
            kind = f"{'' if package == 'builtins' else package + '.'}{type(frame).__name__}"
            raise SparkError(
                f"streams: {name!r} is of type {kind}, not a DataFrame of Spark; "
                "read it with spark.readStream, or a static table with spark.createDataFrame"
            )
    sessions = [frame.sparkSession for frame in streams.values()]
    if any(session != sessions[0] for session in sessions):
        raise SparkError("streams: the DataFrames are of different sessions; make all in one session")
    return dict(streams)


def is_frame(value: Any) -> bool:
    """Whether something is a DataFrame of Spark."""
    return not isinstance(value, type) and all(hasattr(type(value), name) for name in _OF_A_DATAFRAME)


def check_event_time(event_time: Any) -> str | dict[str, str]:
    """A column, or one for each stream."""
    right = "the column with the event time, or {stream: column}"
    if not isinstance(event_time, Mapping):
        return check_text("event_time", event_time, right)
    return {
        check_text("event_time", name, right): check_text("event_time", column, right)
        for name, column in event_time.items()
    }


def check_mapping(name: str, value: Any, right: str) -> dict[str, Any]:
    """A dict by names; nothing if it is None."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SparkError(f"{name}: {shown(value)} is not a dict; give {right}")
    for key in value:
        check_text(name, key, right)
    return dict(value)


def check_duration(name: str, value: Any) -> int:
    """A duration, in microseconds."""
    try:
        return duration(value)
    except QueryError as problem:
        raise SparkError(f"{name}: {problem}") from problem


def check_step(step: Any) -> str | None:
    """A step as text that says the same; whether it suits the query is told when that is read."""
    return duration_text(parse_signed_duration(step)) if isinstance(step, datetime.timedelta) else step


def check_delays(delay: Any, names: Sequence[str]) -> dict[str, int]:
    """The delays of streams, in microseconds."""
    if delay is None:
        return {}
    if not isinstance(delay, Mapping):
        return dict.fromkeys(names, check_duration("delay", delay))
    delays = {}
    for name, wait in delay.items():
        known = find_spellings(check_text("delay", name, "{stream: delay}"), names)
        if not known:
            raise SparkError(f"delay: unknown stream {name!r}; {did_you_mean(name, names)}streams: {list_names(names)}")
        if wait is not None:
            delays[known[0]] = check_duration(f"delay of {known[0]!r}", wait)
    return delays


def check_schedule(schedule: Any) -> tuple[tuple[int, str], ...]:
    """Moments of event time, in microseconds, and plans, in order."""
    right = "give a list of (moment, plan), a moment as datetime or int of microseconds"
    if isinstance(schedule, str | Mapping) or not isinstance(schedule, Sequence):
        raise SparkError(f"schedule: {shown(schedule)} is not a list; {right}")
    steps = []
    for step in schedule:
        if isinstance(step, str) or not isinstance(step, Sequence) or len(step) != 2:
            raise SparkError(f"schedule: {shown(step)} is not a moment and a plan; {right}")
        moment, plan = step
        check_text("schedule", plan, "a plan such as '((a b) c)' with each moment")
        if isinstance(moment, bool) or not isinstance(moment, int | datetime.datetime):
            raise SparkError(f"schedule: {shown(moment)} is not a moment; {right}")
        try:
            steps.append((to_microseconds(moment), plan))
        except InputError as problem:
            told = str(problem).removeprefix("push: watermark ")
            raise SparkError(f"schedule: {told}; {right}") from None
    return tuple(sorted(steps))


def check_schedule_works(
    query: Query, options: EngineOptions, plan: str | None, schedule: Sequence[tuple[int, str]]
) -> None:
    """Refuse a schedule that no cell could follow: an engine without rows makes the same changes."""
    if options.strategy is None and options.executor != Eddy.name:
        return  # the default strategies make any change
    tables = {name: query.schemas[name].empty_table() for name in query.tables}
    engine = Engine(query, plan=plan, tables=tables, **options.keywords())
    for _, later in schedule:
        try:
            engine.migrate(later)
            engine.push({})
        except EngineError as problem:
            raise SparkError(f"schedule: {str(problem).removeprefix('migrate: ')}") from None


def check_hot_keys(hot_keys: Any) -> dict[str, list[Any]]:
    """Values of key columns that are to be spread."""
    right = "values by key column: {'o.customer': [7, 11]}"
    found = {}
    for name, values in check_mapping("hot_keys", hot_keys, right).items():
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise SparkError(f"hot_keys: {name!r} has {shown(values)}; give {right}")
        found[name] = list(values)
    return found


def check_migration(plan: Any, strategy: Any, cells: Any, timeout: Any, on_progress: Any) -> None:
    """What a command to change the plan is given."""
    check_text("plan", plan, "one such as '((a b) c)'")
    if strategy is not None:
        check_strategy(strategy)
    numbers = [] if cells is None else [cells] if isinstance(cells, int) else cells
    if isinstance(numbers, str) or not isinstance(numbers, Sequence) or not all(type(cell) is int for cell in numbers):
        raise SparkError(f"cells: {shown(cells)} is neither a cell nor a list of them; give numbers from 0 on")
    if cells is not None and not isinstance(cells, int) and not numbers:
        raise SparkError("cells: the list is empty; give numbers from 0 on, or leave it out to change all cells")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise SparkError(f"timeout: {shown(timeout)} is not a time to wait; give seconds, more than 0")
    if on_progress is not None and not callable(on_progress):
        raise SparkError(f"on_progress: {shown(on_progress)} cannot be called; give a function")


def check_name(value: Any) -> str:
    """The name of a join, which is part of file names."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise SparkError(f"name: {shown(value)} is not a name; give up to 40 letters, digits and underscores")
    return value
