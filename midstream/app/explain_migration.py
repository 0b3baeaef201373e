"""What a change of plan would cost, as text: what becomes of the states, then one line a strategy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from midstream.adapt import Estimate, Measured, MigrationEstimate

#: From how many seconds on a unit is used, its size in seconds, and its name.
_UNITS = (
    (172_800.0, 86_400.0, "d"),
    (7_200.0, 3_600.0, "h"),
    (120.0, 60.0, "min"),
    (1.0, 1.0, "s"),
    (1e-3, 1e-3, "ms"),
    (0.0, 1e-6, "µs"),
)


def explain_migration(found: MigrationEstimate) -> str:
    """The estimates as text."""
    return "\n".join(_lines(found))


def _lines(found: MigrationEstimate) -> Iterator[str]:
    yield f"migration {found.old} -> {found.new}"
    yield ""
    yield _source_text(found.measured)
    yield ""
    if found.states:
        states = [(state.name, _count_text(state.entries), str(state.fate)) for state in found.states]
        yield from _columns([("state", "entries", "what becomes of it"), *states])
    else:
        yield "the plans have no inner states"
    yield ""
    strategies = [_row(estimate, found.push_rows) for estimate in found.strategies]
    yield from _columns([("strategy", "pause", "ends", "work"), *strategies])
    refusals = [estimate.refusal for estimate in found.strategies if estimate.refusal is not None]
    if refusals:
        yield ""
        yield from refusals


def _source_text(measured: Measured | None) -> str:
    if measured is None:
        return "from the plans and windows alone; with --data there are estimates of sizes and costs"
    cut = "; the sample ended early, because states grew too large" if measured.is_cut else ""
    return (
        f"estimates for full windows, from {measured.rows:,} of {measured.rows_given:,} rows "
        f"over {span_text(measured.seconds)} of event time{cut}"
    )


def _row(estimate: Estimate, push_rows: int) -> tuple[str, ...]:
    if estimate.manner == "refused":
        return estimate.strategy, "refused", "-", "see below"
    pause = "none" if estimate.pause == 0 else "?" if estimate.pause is None else span_text(estimate.pause)
    return estimate.strategy, pause, _end_text(estimate, push_rows), _work_text(estimate)


def _end_text(estimate: Estimate, push_rows: int) -> str:
    if estimate.manner == "at once" or estimate.pushes == 0:
        return "at once"
    after = (
        "when the windows have passed"
        if estimate.length is None
        else f"after {span_text(estimate.length)} of event time"
    )
    if estimate.manner == "two plans":
        return after
    if estimate.pushes is None:
        is_known = estimate.length is not None and not math.isinf(estimate.length)
        return f"at the latest {after}" if is_known else "when all was probed or filled"
    return f"within {estimate.pushes:,} pushes of {push_rows:,} rows"


def _work_text(estimate: Estimate) -> str:
    if estimate.entries == 0:
        return "none"
    if estimate.manner == "two plans":
        if estimate.entries is None:
            return "both plans run"
        both, alone = _count_text(estimate.entries), _count_text(estimate.entries_alone)
        return f"both plans make {both} entries; the new one alone {alone}"
    what = "the new states" if estimate.entries is None else f"{_count_text(estimate.entries)} entries"
    return f"{what}, before the next row is taken" if estimate.manner == "at once" else f"{what}, as probes need them"


def _count_text(number: float | None) -> str:
    return "?" if number is None else f"{number:,.0f}"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows with their cells below each other; numbers to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = (
            cell.rjust(width) if cell[:1].isdigit() and cell.replace(",", "").isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        yield "   ".join(cells).rstrip()


def span_text(seconds: float) -> str:
    """A length of time in the unit that fits.

    >>> span_text(0.0314), span_text(1.5), span_text(60.0), span_text(5_400.0), span_text(172_800.0)
    ('31.4 ms', '1.5 s', '60 s', '90 min', '2 d')
    """
    _, size, unit = next(entry for entry in _UNITS if seconds >= entry[0])
    amount = seconds / size
    return f"{amount:,.0f} {unit}" if amount >= 100 else f"{amount:.3g} {unit}"
