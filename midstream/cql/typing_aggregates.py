"""Typing of aggregates: what they take and give, by Spark's rules.

====================  ===========================  ==========================================
aggregate             of                           gives
====================  ===========================  ==========================================
count, count(DISTINCT)                             int64
sum                   integers                     int64
                      floats, text                 float64
                      decimal(p, s)                decimal(p + 10, s), at most 38 digits
avg, mean             integers, floats, text       float64
                      decimal(p, s)                decimal(p + 4, s + 4), each at most 38
min, max              whatever has an order        the same type
====================  ===========================  ==========================================

What is summed up is cast to int64, float64 or a plain decimal here, so that whoever adds it up knows three types. A
uint64, which Spark does not have, counts as the decimal that holds it, as in arithmetic.
"""

from __future__ import annotations

import pyarrow as pa

from midstream.cql.model import Aggregate, Expr, Literal
from midstream.cql.typing_rules import coerce
from midstream.cql.typing_types import MAX_PRECISION, FunctionError, comparison_type, decimal_of, family

#: What an aggregate is called in a query, and in the model.
AGGREGATES = {"count": "count", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max"}
AGGREGATES_TEXT = "there are count, sum, avg, min and max"

#: Spark's other aggregates, which are refused by their names.
OTHER_AGGREGATES = frozenset({
    "any", "any_value", "approx_count_distinct", "array_agg", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or",
    "collect_list", "collect_set", "corr", "count_if", "count_min_sketch", "covar_pop", "covar_samp", "every", "first",
    "first_value", "grouping", "grouping_id", "kurtosis", "last", "last_value", "listagg", "max_by", "median", "min_by",
    "mode", "percentile", "percentile_approx", "percentile_cont", "percentile_disc", "skewness", "some", "std",
    "stddev", "stddev_pop", "stddev_samp", "string_agg", "try_avg", "try_sum", "var_pop", "var_samp", "variance",
})  # fmt: skip

_EXTRA_SUM_DIGITS, _EXTRA_AVERAGE_DIGITS = 10, 4


def count_rows() -> Aggregate:
    """``count(*)``"""
    return Aggregate("count", None, pa.int64())


def make_aggregate(name: str, argument: Expr, distinct: bool = False) -> Aggregate:
    """An aggregate of an expression; the name as in a query, in lower case.

    >>> from midstream.cql.model import Column
    >>> make_aggregate("sum", Column(0, "x", pa.int32()))
    Aggregate(function='sum', argument=Cast(operand=Column(...), type=DataType(int64)), type=DataType(int64))
    >>> make_aggregate("mean", Column(0, "price", pa.decimal128(10, 2))).type
    Decimal128Type(decimal128(14, 6))
    """
    function = AGGREGATES[name]
    if distinct and function != "count":
        right = f"write {name}(x)" if function in ("min", "max") else "only count takes DISTINCT"
        raise FunctionError(f"{name}(DISTINCT ...) is not supported; {right}")
    if function == "count":
        return _count(argument, distinct)
    if function in ("min", "max"):
        check_comparable(argument, name)
        return Aggregate(function, argument, argument.type)
    argument = _summed(name, argument)
    return Aggregate(function, argument, _result_type(function, argument.type))


def check_comparable(expr: Expr, taker: str, written: str = "") -> None:
    """Refuse values that have no equality, such as lists; `taker` is the aggregate or clause that would need it."""
    if family(expr.type) == "other":
        what = f"'{written}', which is {expr.type}" if written else str(expr.type)
        raise FunctionError(f"{taker} does not take {what}; it takes numbers, text, bytes, booleans, dates and times")
    comparison_type(expr.type, expr.type)


def _count(argument: Expr, distinct: bool) -> Aggregate:
    if distinct:
        check_comparable(argument, "count(DISTINCT ...)")
    elif isinstance(argument, Literal) and argument.value is not None:
        return count_rows()
    if family(argument.type) == "null":
        argument = coerce(argument, pa.bool_())
    return Aggregate("count_distinct" if distinct else "count", argument, pa.int64())


def _summed(name: str, argument: Expr) -> Expr:
    """What sum and avg add up, in one of the three types that can be added up."""
    kind = family(argument.type)
    if kind == "decimal" or argument.type == pa.uint64():
        return coerce(argument, decimal_of(argument.type))
    if kind == "integer":
        return coerce(argument, pa.int64())
    if kind in ("float", "text", "null"):
        return coerce(argument, pa.float64())
    raise FunctionError(f"{name} does not take {argument.type}; it takes numbers")


def _result_type(function: str, summed: pa.DataType) -> pa.DataType:
    if family(summed) != "decimal":
        return pa.float64() if function == "avg" else summed
    if function == "sum":
        return pa.decimal128(min(summed.precision + _EXTRA_SUM_DIGITS, MAX_PRECISION), summed.scale)
    return pa.decimal128(
        min(summed.precision + _EXTRA_AVERAGE_DIGITS, MAX_PRECISION),
        min(summed.scale + _EXTRA_AVERAGE_DIGITS, MAX_PRECISION),
    )
