"""A hint to the processor: fetch the cache line of an element that a later iteration will read.

Hash probes jump through memory. Asking for the line a few rows ahead lets the processor work on several misses at
once instead of waiting for each in turn.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def prefetch(typingctx, array, index):
    """Ask for the cache line of `array[index]`, `array` being one-dimensional or the first axis of a matrix."""
    if not isinstance(array, types.Array):
        return None

    def generate(context, builder, signature, arguments):
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, arguments[0])
        strides = cgutils.unpack_tuple(builder, view.strides, array_type.ndim)
        base = builder.ptrtoint(view.data, ir.IntType(64))
        address = builder.add(base, builder.mul(arguments[1], strides[0]))
        pointer_type = ir.IntType(8).as_pointer()
        pointer = builder.inttoptr(address, pointer_type)
        integer = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer_type, integer, integer, integer])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        builder.call(function, [pointer, integer(0), integer(3), integer(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate
