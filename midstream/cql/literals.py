"""Constants as SQL writes them -> `Literal`, with the types that Spark SQL gives them.

A whole number is an int32, an int64 or a decimal, whichever it first fits; with a point it is a decimal, with an
exponent a double; a suffix (``3L``, ``1.5D``, ``2BD``) says the type. An interval has a fixed length.
"""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
from sqlglot import exp

from midstream.cql.durations import microseconds, parse_signed_duration
from midstream.cql.model import Literal
from midstream.cql.moments import parse_day, parse_moment
from midstream.errors import QueryError

TIMESTAMP = pa.timestamp("us")
INTERVAL = pa.duration("us")
DECIMAL_DIGITS = 38
#: Where the syntax tree keeps the text of an interval as it was written.
INTERVAL_TEXT = "interval text"

_NUMBER = re.compile(r"(-?)((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([A-Za-z]*)")
_INTEGERS = {"Y": pa.int8(), "S": pa.int16(), "L": pa.int64()}
_FLOATS = {"F": pa.float32(), "D": pa.float64()}


def parse_number(text: str) -> Literal:
    """A number, perhaps with a minus before and a suffix behind.

    >>> parse_number("3"), parse_number("-2.50")
    (Literal(value=3, type=DataType(int32)), Literal(value=Decimal('-2.50'), type=Decimal128Type(decimal128(3, 2))))
    >>> parse_number("1e3").value, parse_number("3L").type
    (1000.0, DataType(int64))
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise QueryError(f"'{text}' is not a number")
    digits, suffix = match.group(1) + match.group(2), match.group(3).upper()
    exponent = "e" in digits.lower()
    if suffix in _INTEGERS and digits.lstrip("-").isdigit():
        if not _fits(int(digits), _INTEGERS[suffix]):
            raise QueryError(f"'{text}' is out of range")
        return Literal(int(digits), _INTEGERS[suffix])
    if suffix in _FLOATS or (exponent and not suffix):
        with np.errstate(over="ignore"):
            # Rounded here, so that whoever takes the value counts with the one that is compared.
            value = float(np.float32(digits)) if suffix == "F" else float(digits)
        if math.isinf(value):
            raise QueryError(f"'{text}' is out of range")
        return Literal(value, _FLOATS.get(suffix, pa.float64()))
    if suffix not in ("", "BD"):
        raise QueryError(f"'{text}' is not a number; the suffixes are L, S, Y, F, D and BD")
    if digits.lstrip("-").isdigit() and not suffix:
        for type in (pa.int32(), pa.int64()):
            if _fits(int(digits), type):
                return Literal(int(digits), type)
    return _decimal(text, Decimal(digits))


def parse_interval(node: exp.Interval) -> Literal:
    """INTERVAL with an amount and a unit of fixed length, or with a text that has both."""
    unit = node.args.get("unit")
    if not isinstance(node.this, exp.Literal) or not isinstance(unit, exp.Var | None):
        raise QueryError(
            "this form of INTERVAL is not supported; write INTERVAL 10 MINUTES or INTERVAL '1 hour 5 minutes'"
        )
    text = str(node.meta.get(INTERVAL_TEXT, node.this.name))
    if unit is None or any(map(str.isalpha, text)):
        length = parse_signed_duration(text)
    else:
        length = microseconds(text, unit.name)
    return Literal(datetime.timedelta(microseconds=length), INTERVAL)


def parse_date(text: str) -> Literal:
    """The date of ``DATE '2026-01-31'``.

    >>> parse_date("2026-01-31").value
    datetime.date(2026, 1, 31)
    """
    try:
        return Literal(parse_day(text), pa.date32())
    except ValueError:
        raise QueryError(f"'{text}' is not a date; write DATE 'YYYY-MM-DD'") from None


def parse_timestamp(text: str) -> Literal:
    """The moment of ``TIMESTAMP '2026-01-31 12:00:00'``, in UTC if the text has no zone.

    >>> parse_timestamp("2026-01-31 12:00:00+01:00").value
    datetime.datetime(2026, 1, 31, 11, 0)
    """
    try:
        found = parse_moment(text)
    except (ValueError, OverflowError):
        raise QueryError(f"'{text}' is not a timestamp; write TIMESTAMP 'YYYY-MM-DD HH:MM:SS'") from None
    return Literal(found, TIMESTAMP)


def _decimal(text: str, value: Decimal) -> Literal:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale)
    if precision > DECIMAL_DIGITS:
        raise QueryError(f"'{text}' has too many digits; a number has at most {DECIMAL_DIGITS}")
    # A decimal has no negative zero: as a double, too, -0.0 is 0.0.
    value = value if value else value.copy_abs()
    return Literal(Decimal(int(value)) if exponent > 0 else value, pa.decimal128(precision, scale))


def _fits(value: int, type: pa.DataType) -> bool:
    limit: int = 2 ** (type.bit_width - 1)
    return -limit <= value < limit
