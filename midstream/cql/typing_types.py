"""Which types go together: the types in which values are compared, combined and converted.

Arrow has more types than SQL. They fall into *families*, and inside a family there is always a common type::

    integer  int8 .. int64, uint8 .. uint64     text    string, large_string
    float    float16, float32, float64          bytes   binary, large_binary, fixed_size_binary
    decimal  decimal32 .. decimal256            date    date32, date64      timestamp   any unit, any zone
    boolean                                     time    time32, time64      duration    any unit      null

Between families only integer, float and decimal mix, and date with timestamp. Dictionaries, runs and views
count as their values (`plain`).
Everything here is about types alone; `typing_rules` and `typing_scalars` apply it to expressions.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pt

from midstream.cql.plain import plain_type
from midstream.errors import MidstreamError

MAX_PRECISION = 38
MINIMUM_DIVISION_SCALE = 6  # Spark's DecimalType.MINIMUM_ADJUSTED_SCALE

TIMESTAMP = pa.timestamp("us")
DURATION = pa.duration("us")
TIME = pa.time64("us")

NUMERIC = frozenset({"integer", "float", "decimal"})

_DIGITS = {"int8": 3, "int16": 5, "int32": 10, "int64": 20, "uint8": 3, "uint16": 5, "uint32": 10, "uint64": 20}
_SIGNED = {"uint8": pa.int16(), "uint16": pa.int32(), "uint32": pa.int64()}
_SQL_NAMES = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bool": "BOOLEAN", "string": "STRING", "binary": "BINARY", "date32[day]": "DATE", "timestamp[us]": "TIMESTAMP",
}  # fmt: skip


class FunctionError(MidstreamError):
    """A function is unknown, or its arguments have types that it does not take."""


def family(type: pa.DataType) -> str:
    """The family a type belongs to, as in the table above; "other" if it is none of them.

    >>> family(pa.uint16()), family(pa.dictionary(pa.int8(), pa.large_string()))
    ('integer', 'text')
    """
    type = plain_type(type)
    if pt.is_integer(type):
        return "integer"
    if pt.is_floating(type):
        return "float"
    if pt.is_decimal(type):
        return "decimal"
    if pt.is_string(type) or pt.is_large_string(type):
        return "text"
    if pt.is_boolean(type):
        return "boolean"
    if pt.is_timestamp(type):
        return "timestamp"
    if pt.is_date(type):
        return "date"
    if pt.is_duration(type):
        return "duration"
    if pt.is_time(type):
        return "time"
    if pt.is_binary(type) or pt.is_large_binary(type) or pt.is_fixed_size_binary(type):
        return "bytes"
    return "null" if pt.is_null(type) else "other"


def sql_name(type: pa.DataType) -> str:
    """The name of a type in SQL, as CAST takes it, where SQL has one.

    >>> sql_name(pa.int64()), sql_name(pa.decimal128(10, 2))
    ('BIGINT', 'DECIMAL(10, 2)')
    """
    if pt.is_decimal(type):
        return f"DECIMAL({type.precision}, {type.scale})"
    return _SQL_NAMES.get(str(type), str(type))


def decimal_of(type: pa.DataType) -> pa.DataType:
    """The decimal that holds every value of an integer or decimal type, at most 38 digits."""
    if pt.is_decimal(type):
        if type.precision > MAX_PRECISION:
            raise FunctionError(
                f"{type} has more than the {MAX_PRECISION} digits that are compared and computed with; "
                f"write CAST(... AS DECIMAL({MAX_PRECISION}, {max(0, min(type.scale, MAX_PRECISION))})) around it"
            )
        scale = min(max(type.scale, 0), MAX_PRECISION)
        return pa.decimal128(max(1, min(type.precision + max(-type.scale, 0), MAX_PRECISION)), scale)
    return pa.decimal128(_DIGITS[str(type)], 0)


def common_decimal(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The decimal that holds the values of both; of over 38 digits, those after the point give way, as in Spark.

    >>> common_decimal(pa.decimal128(10, 2), pa.int64())
    Decimal128Type(decimal128(22, 2))
    >>> common_decimal(pa.decimal128(38, 37), pa.int64())
    Decimal128Type(decimal128(38, 18))
    """
    a, b = decimal_of(a), decimal_of(b)
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    return pa.decimal128(max(1, min(whole + scale, MAX_PRECISION)), min(scale, MAX_PRECISION - whole))


def decimal_result(operator: str, a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Precision and scale of decimal arithmetic, by Spark's rules (allowPrecisionLoss, its default).

    >>> decimal_result("multiply", pa.decimal128(10, 2), pa.decimal128(5, 1))
    Decimal128Type(decimal128(16, 3))
    >>> decimal_result("divide", pa.decimal128(10, 2), pa.decimal128(5, 1))
    Decimal128Type(decimal128(17, 8))
    """
    p1, s1, p2, s2 = a.precision, a.scale, b.precision, b.scale
    if operator in ("add", "subtract"):
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    elif operator == "multiply":
        scale = s1 + s2
        precision = p1 + p2 + 1
    elif operator == "divide":
        scale = max(MINIMUM_DIVISION_SCALE, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    else:
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    if precision > MAX_PRECISION:
        whole = precision - scale
        scale = max(MAX_PRECISION - whole, min(scale, MINIMUM_DIVISION_SCALE))
        precision = MAX_PRECISION
    return pa.decimal128(max(precision, 1), scale)


def numeric_result(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type in which two numbers are added or chosen between.

    Integers take the wider type; unsigned ones, which Spark does not have, first become the next wider signed one,
    and uint64 a decimal. Two float32 stay float32; any other mix with a float is float64.

    >>> numeric_result(pa.int32(), pa.int64()), numeric_result(pa.float32(), pa.int8())
    (DataType(int64), DataType(double))
    """
    kinds = {family(a), family(b)}
    if "float" in kinds:
        narrow = kinds == {"float"} and pa.float64() not in (a, b)
        return pa.float32() if narrow else pa.float64()
    a, b = _SIGNED.get(str(a), a), _SIGNED.get(str(b), b)
    if "decimal" in kinds or pa.uint64() in (a, b):
        return common_decimal(a, b)
    return a if a.bit_width >= b.bit_width else b


def comparison_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The canonical type in which values of two types are tested for equality and order.

    >>> comparison_type(pa.int32(), pa.uint8()), comparison_type(pa.int64(), pa.float32())
    (DataType(int64), DataType(double))
    >>> comparison_type(pa.date32(), pa.timestamp("ns", "Europe/Berlin"))
    TimestampType(timestamp[us])
    >>> comparison_type(pa.string(), pa.int64())
    Traceback (most recent call last):
    midstream.cql.typing_types.FunctionError: cannot compare string with int64; write CAST(...
    """
    a, b = plain_type(a), plain_type(b)
    if pt.is_null(a) or pt.is_null(b):
        a, b = (b, b) if pt.is_null(a) else (a, a)
    first, second = family(a), family(b)
    kinds = {first, second}
    if kinds == {"integer"}:
        if pa.uint64() not in (a, b):
            return pa.int64()
        return pa.uint64() if a == b else pa.decimal128(20, 0)
    if kinds <= NUMERIC:
        return pa.float64() if "float" in kinds else common_decimal(a, b)
    if kinds <= {"date", "timestamp"}:
        return pa.date32() if kinds == {"date"} else TIMESTAMP
    if first == second:
        same = {"boolean": pa.bool_(), "duration": DURATION, "time": TIME, "null": pa.bool_()}
        if first in same:
            return same[first]
        if first == "text":
            return pa.large_string() if pa.large_string() in (a, b) else pa.string()
        if first == "bytes":
            return pa.large_binary() if pa.large_binary() in (a, b) else pa.binary()
    raise FunctionError(f"cannot compare {a} with {b}; {_cast_hint(a, b)}")


def common_type(types: Iterable[pa.DataType]) -> pa.DataType:
    """The type of a value that is one of several, as in CASE, COALESCE or UNION. Equal types are kept as they are.

    Instants stay instants, in the zone of the first that has one. What has no zone is in UTC, as everywhere else.

    >>> common_type([pa.int8(), pa.null(), pa.decimal128(4, 2)])
    Decimal128Type(decimal128(5, 2))
    >>> common_type([pa.date32(), pa.timestamp("ms", "UTC"), pa.timestamp("us", "Europe/Berlin")])
    TimestampType(timestamp[us, tz=UTC])
    """
    result = pa.null()
    for type in map(plain_type, types):
        if pt.is_null(result) or type == result:
            result = type
        elif pt.is_null(type):
            continue
        elif {family(type), family(result)} <= NUMERIC:
            result = numeric_result(result, type)
        elif "timestamp" in (kinds := {family(type), family(result)}) and kinds <= {"timestamp", "date"}:
            zones = [side.tz for side in (result, type) if pt.is_timestamp(side) and side.tz is not None]
            result = pa.timestamp("us", zones[0] if zones else None)
        else:
            try:
                result = comparison_type(result, type)
            except FunctionError:
                raise FunctionError(f"no common type of {result} and {type}; {_cast_hint(result, type)}") from None
    return result


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether CAST knows a way from one type to the other; single values may still fail, and give null."""
    a, b = family(source), family(target)
    if "other" in (a, b) or b == "null":
        return False
    if pt.is_fixed_size_binary(target) and a != "null":
        return bool(plain_type(source) == target)
    if a == "null" or a == b:
        return True
    return b in _CASTS.get(a, ())


_CASTS = {
    "integer": ("float", "decimal", "boolean", "text", "timestamp"),
    "float": ("integer", "decimal", "boolean", "text", "timestamp"),
    "decimal": ("integer", "float", "boolean", "text", "timestamp"),
    "boolean": ("integer", "float", "decimal", "text"),
    "text": ("integer", "float", "decimal", "boolean", "date", "timestamp", "bytes"),
    "bytes": ("text",),
    "date": ("timestamp", "text"),
    "timestamp": ("date", "integer", "float", "decimal", "text"),
    "time": ("text",),
}


def _cast_hint(a: pa.DataType, b: pa.DataType) -> str:
    """Advice on which CAST would make two types meet."""
    ways = [target for target, source in ((b, a), (a, b)) if castable(source, target) and family(target) != "other"]
    if not ways:
        return "they have no common meaning"
    return f"write {' or '.join(f'CAST(... AS {sql_name(target)})' for target in ways)} around one of them"
