"""Plain types: the type of a column without regard to how Arrow lays its values out.

Arrow has several layouts for the same values: dictionaries and runs, views of text and of lists, and types that extend
others. Queries compute with the plain layout, and results have it, whatever the schema says; rows may be pushed in
either. It holds at any depth::

    dictionary<int8, string>, run_end_encoded<int32, string>, string_view   ->   string
    list_view<struct<x: binary_view>>                                       ->   list<struct<x: binary>>
    extension<arrow.uuid>                                                   ->   fixed_size_binary[16]
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pat


def plain_type(type: pa.DataType) -> pa.DataType:
    """The type of the same values without dictionaries, runs, views and extensions.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string_view()))
    DataType(string)
    >>> plain_type(pa.large_list_view(pa.binary_view()))
    LargeListType(large_list<item: binary>)
    """
    if pat.is_dictionary(type) or pat.is_run_end_encoded(type):
        return plain_type(type.value_type)
    if isinstance(type, pa.BaseExtensionType):
        return plain_type(type.storage_type)
    if pat.is_string_view(type):
        return pa.string()
    if pat.is_binary_view(type):
        return pa.binary()
    if pat.is_list(type) or pat.is_list_view(type):
        return pa.list_(_plain_field(type.value_field))
    if pat.is_large_list(type) or pat.is_large_list_view(type):
        return pa.large_list(_plain_field(type.value_field))
    if pat.is_fixed_size_list(type):
        return pa.list_(_plain_field(type.value_field), type.list_size)
    if pat.is_map(type):
        return pa.map_(_plain_field(type.key_field), _plain_field(type.item_field), type.keys_sorted)
    if pat.is_struct(type):
        return pa.struct([_plain_field(field) for field in type])
    return type


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))


def has_encoded(type: pa.DataType) -> bool:
    """Whether a type is a dictionary or runs, or has them inside, so that a few bytes can stand for many values.

    >>> has_encoded(pa.list_(pa.dictionary(pa.int8(), pa.string()))), has_encoded(pa.string_view())
    (True, False)
    """
    if isinstance(type, pa.BaseExtensionType):
        return has_encoded(type.storage_type)
    if pat.is_dictionary(type) or pat.is_run_end_encoded(type):
        return True
    return any(has_encoded(type.field(at).type) for at in range(type.num_fields))


def has_union(type: pa.DataType) -> bool:
    """Whether a plain type is a union or has one inside: the one kind of type that queries do not take.

    >>> has_union(pa.list_(pa.dense_union([pa.field("x", pa.int8())]))), has_union(pa.list_(pa.int8()))
    (True, False)
    """
    return bool(pat.is_union(type)) or any(has_union(type.field(at).type) for at in range(type.num_fields))
