"""Expressions as differences: ``left - right + shift``, the form in which bands are recognised.

Whole numbers, floats, and times are taken apart (times in microseconds). Taking ``a.x + 1 - b.y`` apart changes when
it fails: the sum may overflow, and what overflows is null and matches nothing. So a difference also says

* `low` and `high`: between which bounds ``left - right`` lies wherever the arithmetic over both inputs did not fail;
* `checks`: expressions of one input that must not be null.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt

from midstream.cql.model import Call, Cast, Expr, Literal, inputs_of

Number = int | float
DAY = 86_400_000_000


@dataclass(frozen=True)
class Difference:
    """``left - right + shift``; a side may be missing. `computed` if arithmetic combines both inputs.

    `additions` and `constants` are how often something was added and the sizes of all constants: see `Rounding`.
    """

    left: Expr | None = None
    right: Expr | None = None
    shift: Number = 0
    low: Number | None = None
    high: Number | None = None
    checks: tuple[Expr, ...] = ()
    computed: bool = False
    additions: int = 0
    constants: Number = 0

    def negated(self) -> Difference:
        low = None if self.high is None else -self.high
        high = None if self.low is None else -self.low
        return replace(self, left=self.right, right=self.left, shift=-self.shift, low=low, high=high)

    def plus(self, other: Difference) -> Difference | None:
        """The sum, if it still has at most one expression on each side."""
        if (self.left and other.left) or (self.right and other.right):
            return None
        bounded = self if self.low is not None or self.high is not None else other
        return Difference(
            self.left or other.left,
            self.right or other.right,
            self.shift + other.shift,
            bounded.low,
            bounded.high,
            self.checks + other.checks,
            self.computed or other.computed,
            self.additions + other.additions + 1,
            self.constants + other.constants,
        )


def find_difference(expr: Expr, floating: bool) -> Difference | None:
    """An expression as a difference, or None if it is none. `floating` says that it is compared as a float64.

    >>> from midstream.cql.model import Column
    >>> from midstream.cql.functions import call
    >>> x, y = Column(0, "x", pa.int64()), Column(1, "y", pa.int64())
    >>> found = find_difference(call("subtract", (x, y)), floating=False)
    >>> found.left == x, found.right == y, found.low == -(2**63)
    (True, True, True)
    """
    whole, expr = expr, strip_casts(expr, floating)
    inputs = inputs_of(expr)
    if not inputs:
        value = find_constant(expr)
        return None if value is None else Difference(shift=value, constants=abs(value))
    if len(inputs) == 1:
        return _take_off_constants(whole, expr, floating)
    if not isinstance(expr, Call) or expr.function not in ("add", "subtract"):
        return None
    if pt.is_date(expr.type) or not _countable(expr.type, floating):
        return None
    first, second = (find_difference(arg, floating) for arg in expr.args)
    if first is None or second is None:
        return None
    total = first.plus(second if expr.function == "add" else second.negated())
    if total is None or total.left is None or total.right is None:
        return None
    return limit_difference(replace(total, computed=True), expr.type)


def limit_difference(found: Difference, type: pa.DataType, symmetric: bool = False) -> Difference:
    """A difference that was computed in a type without overflow; if `symmetric`, so was its negative."""
    if pt.is_floating(type):
        return found
    bits = type.bit_width - 1
    low, high = int(symmetric) - 2**bits - found.shift, 2**bits - 1 - found.shift
    return replace(
        found,
        low=low if found.low is None else max(low, found.low),
        high=high if found.high is None else min(high, found.high),
    )


def find_constant(expr: Expr) -> Number | None:
    """The value of an expression without columns, intervals in microseconds; None if it has none or is not known.

    >>> from midstream.cql.functions import call
    >>> find_constant(call("multiply", (Literal(60, pa.int32()), Literal(1000, pa.int32()))))
    60000
    """
    value: Number | None = None
    if isinstance(expr, Literal):
        value = _number(expr.value)
    elif isinstance(expr, Cast) and (pt.is_integer(expr.type) or expr.type == pa.float64()):
        value = find_constant(expr.operand)
        if value is not None and pt.is_integer(expr.type):
            value = value if isinstance(value, int) else None
        elif value is not None:
            value = float(value)
    elif isinstance(expr, Call) and expr.function in ("add", "subtract", "multiply", "negate", "abs"):
        values = [find_constant(arg) for arg in expr.args]
        known = [number for number in values if number is not None]
        exact = expr.type != pa.float32() and not (pt.is_decimal(expr.type) and len(known) > 1)
        if len(known) == len(values) and exact:
            value = _apply(expr.function, known)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is not None and (pt.is_integer(expr.type) or pt.is_duration(expr.type)):
        limit = 2 ** (expr.type.bit_width - 1)
        return value if -limit <= value < limit else None
    return value


def _apply(function: str, values: list[Number]) -> Number:
    if function == "negate":
        return -values[0]
    if function == "abs":
        return abs(values[0])
    first, second = values
    return first + second if function == "add" else first - second if function == "subtract" else first * second


def _number(value: object) -> Number | None:
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _take_off_constants(whole: Expr, inner: Expr, floating: bool) -> Difference:
    """An expression of one input as a difference: constants that are added to it become the shift."""
    expr, shift, additions = inner, 0.0 if floating else 0, 0
    constants: Number = 0
    while isinstance(inner, Call) and inner.function in ("add", "subtract") and _countable(inner.type, floating):
        first, second = inner.args
        if inner.function == "add" and not inputs_of(first):
            first, second = second, first
        value = None if inputs_of(second) else find_constant(second)
        if value is None or (isinstance(value, float) and not floating):
            break
        if pt.is_date(inner.type):
            value *= DAY
        shift += value if inner.function == "add" else -value
        constants += abs(value)
        additions += 1
        inner = strip_casts(first, floating)
    checks = () if inner is expr else (whole,)
    return Difference(left=inner, shift=shift, checks=checks, additions=additions, constants=constants)


def _countable(type: pa.DataType, floating: bool) -> bool:
    """Whether arithmetic in a type can be taken apart when its result is compared as a float, or as an integer."""
    if floating:
        return bool(type == pa.float64())
    return bool(pt.is_signed_integer(type) or pt.is_timestamp(type) or pt.is_duration(type) or pt.is_date(type))


def strip_casts(expr: Expr, floating: bool) -> Expr:
    """An expression without the casts that change no value: to wider integers, or to microseconds."""
    while isinstance(expr, Cast):
        source, target = expr.operand.type, expr.type
        wider = pt.is_signed_integer(target) and pt.is_integer(source) and _holds(target, source)
        moment = pt.is_timestamp(target) and target.unit == "us" and (pt.is_timestamp(source) or pt.is_date(source))
        if floating or not (wider or moment):
            break
        expr = expr.operand
    return expr


def _holds(target: pa.DataType, source: pa.DataType) -> bool:
    spare = 0 if pt.is_signed_integer(source) else 1
    return bool(target.bit_width >= source.bit_width + spare)
