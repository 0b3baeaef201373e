"""A failing case as text that a person can read and replay."""

from __future__ import annotations

from .spec import Case, Push, Row

MOST_ROWS = 60


def describe(case: Case, way: str, module: str = "tests.oracle.fuzz") -> str:
    """The case in full if it is small, and the command that replays it."""
    command = f"python -m {module} --seed {case.seed}{case.shape}"
    lines = [f"seed {case.seed} ({case.kind}), {way}", f"replay: {command}"]
    lines += ["query:", case.text]
    for name, source in case.sources.items():
        fields = ", ".join(f"{field.name} {field.type}" for field in source.schema)
        lines.append(f"{name}: {fields}; event time {source.event_time}, delay {source.delay} us")
        lines += [f"  {_row(row)}" for row in source.table_rows[:MOST_ROWS]]
    left = MOST_ROWS
    for number, push in enumerate(case.pushes):
        lines += _push(number, push, left)
        left -= len(push.rows)
        if left <= 0:
            lines.append(f"... {len(case.pushes) - number - 1} more pushes")
            break
    return "\n".join(lines)


def _push(number: int, push: Push, left: int) -> list[str]:
    title = f"push {number}" + ("" if push.watermark is None else f", watermark {push.watermark}")
    return [title, *(f"  {row.source} {_row(row)}" for row in push.rows[: max(left, 0)])]


def _row(row: Row) -> str:
    return "{" + ", ".join(f"{name}: {value!r}" for name, value in row.values.items()) + "}"
