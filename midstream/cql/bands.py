"""Comparisons over two inputs -> bands, which a sorted index can search.

``a.x <= b.y + 5`` and ``abs(a.x - b.y) <= 5`` both say that the difference of two expressions lies between bounds.
Comparisons of the same two expressions meet in one band.

A band is exact if it holds for just the pairs for which the comparisons hold. For whole numbers and times that is so if
the bounds leave no room for an overflow, which would be null and no match; what can overflow in one input alone
becomes a filter of that input. For floats a band is never exact, because arithmetic rounds; it says by how much, so
that a search can be wide enough, and the comparison as it was written decides. NaN is the largest float, equal to
itself, as in Spark; a comparison that a NaN *difference* would pass, such as ``a.x - b.y >= 1``, gives a band only
beside one that it would not pass.

Dates are counted in microseconds like timestamps, so a date that no timestamp can hold, some 290,000 years away, is in
no band.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from midstream.cql import functions
from midstream.cql.conjuncts import Part
from midstream.cql.keys import in_type
from midstream.cql.linear import Difference, Number, find_constant, find_difference, limit_difference, strip_casts
from midstream.cql.model import Band, Call, Expr, Rounding, inputs_of

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Bands:
    """The bands, the parts that exact bands replace, and the filters that make them exact, by input."""

    bands: tuple[Band, ...]
    replaced: frozenset[Part]
    filters: tuple[tuple[int, Expr], ...]


@dataclass(frozen=True)
class _Bound:
    """One comparison as bounds of a difference. `safe` if no NaN difference passes it."""

    part: Part
    form: Difference
    low: Number | None
    high: Number | None
    safe: bool


def find_bands(parts: Iterable[Part]) -> Bands:
    """The bands in some parts over two inputs, in the order in which they first appear."""
    groups: dict[tuple[pa.DataType, Expr, Expr], list[_Bound]] = {}
    for part in parts:
        bound = _bound(part)
        if bound is None or bound.form.left is None or bound.form.right is None:
            continue
        type = pa.float64() if isinstance(bound.form.shift, float) else pa.int64()
        try:
            pair = _make_searchable(bound.form.left, type), _make_searchable(bound.form.right, type)
        except functions.FunctionError:
            continue
        groups.setdefault((type, *pair), []).append(bound)
    bands: list[Band] = []
    replaced: set[Part] = set()
    filters: dict[tuple[int, Expr], None] = {}
    for (type, left, right), bounds in groups.items():
        band = _merge(type, left, right, bounds)
        if band is None:
            continue
        bands.append(band)
        if band.exact:
            replaced.update(bound.part for bound in bounds)
            for check in (check for bound in bounds for check in bound.form.checks):
                (number,) = inputs_of(check)
                filters[number, functions.call("not", (functions.call("is_null", (check,)),))] = None
    return Bands(tuple(bands), frozenset(replaced), tuple(filters))


def _bound(part: Part) -> _Bound | None:
    """A comparison as bounds of ``left - right``, the left one being the input that comes first."""
    if part.operator not in _FLIPPED or part.left is None or part.right is None or len(part.inputs) != 2:
        return None
    type = functions.comparison_type(part.left.type, part.right.type)
    floating = type == pa.float64()
    if not (floating or type == pa.int64() or pt.is_timestamp(type) or pt.is_date(type) or pt.is_duration(type)):
        return None
    found = _absolute(part, floating) or _direct(part, floating)
    if found is None or found.form.left is None or found.form.right is None:
        return None
    if _number(found.form.left) < _number(found.form.right):
        return found
    low = None if found.high is None else -found.high
    high = None if found.low is None else -found.low
    return _Bound(part, found.form.negated(), low, high, found.safe)


def _direct(part: Part, floating: bool) -> _Bound | None:
    """``left OP right`` where the difference of the sides is one of two expressions."""
    assert part.left is not None
    assert part.right is not None
    assert part.operator is not None
    left, right = find_difference(part.left, floating), find_difference(part.right, floating)
    form = left.plus(right.negated()) if left is not None and right is not None else None
    if form is None or left is None:
        return None
    bound = 0 - form.shift
    strict = 1 if part.operator in ("lt", "gt") and not floating else 0
    low = bound + strict if part.operator in ("gt", "ge", "eq") else None
    high = bound - strict if part.operator in ("lt", "le", "eq") else None
    failing = ("lt", "le", "eq") if left.computed else ("gt", "ge", "eq")
    return _Bound(part, form, low, high, form.computed and part.operator in failing)


def _absolute(part: Part, floating: bool) -> _Bound | None:
    """``abs(x - y) <= c`` or ``c >= abs(x - y)``."""
    assert part.left is not None
    assert part.right is not None
    assert part.operator is not None
    value, limit, operator = part.left, part.right, part.operator
    if not inputs_of(value):
        value, limit, operator = limit, value, _FLIPPED[operator]
    value = strip_casts(value, floating)
    size = None if inputs_of(limit) else find_constant(limit)
    if size is None or operator not in ("lt", "le") or not isinstance(value, Call) or value.function != "abs":
        return None
    form = find_difference(value.args[0], floating)
    if form is None:
        return None
    size = float(size) if floating else size - 1 if operator == "lt" else size
    form = limit_difference(replace(form, constants=form.constants + abs(size)), value.type, symmetric=True)
    return _Bound(part, form, -size - form.shift, size - form.shift, True)


def _merge(type: pa.DataType, left: Expr, right: Expr, bounds: list[_Bound]) -> Band | None:
    floating = type == pa.float64()
    if floating and not any(bound.safe for bound in bounds):
        bounds = [bound for bound in bounds if not bound.form.computed]
    low = max((end for bound in bounds for end in (bound.low, _near(bound.form.low)) if end is not None), default=None)
    high = min(
        (end for bound in bounds for end in (bound.high, _near(bound.form.high)) if end is not None), default=None
    )
    if low is None and high is None:
        return None
    if low is not None and high is not None and low > high:
        return None
    if not floating and not (_SMALLEST <= (low or 0) <= _LARGEST and _SMALLEST <= (high or 0) <= _LARGEST):
        return None
    exact = not floating and all(_covers(bound.form, low, high) for bound in bounds)
    (left_input,), (right_input,) = inputs_of(left), inputs_of(right)
    rounding = Rounding()
    if floating:
        forms = [bound.form for bound in bounds]
        rounding = Rounding(max(form.additions for form in forms), float(max(form.constants for form in forms)))
    return Band(type, left_input, left, right_input, right, low, high, exact, rounding)


def _covers(form: Difference, low: Number | None, high: Number | None) -> bool:
    """Whether a difference between two bounds was computed without overflow."""
    below = form.low is None or (low is not None and low >= form.low)
    above = form.high is None or (high is not None and high <= form.high)
    return below and above


def _near(bound: Number | None) -> Number | None:
    """A bound, if arithmetic in a type of less than 64 bits sets it; else None."""
    return bound if bound is not None and abs(bound) <= _LARGEST // 2 else None


def _make_searchable(expr: Expr, type: pa.DataType) -> Expr:
    """An expression in the type of a band: float64, or int64 with times in microseconds."""
    if type == pa.int64() and not pt.is_integer(expr.type):
        return functions.call("unix_micros", (expr,))
    return in_type(expr, type)


def _number(expr: Expr) -> int:
    (number,) = inputs_of(expr)
    return number
