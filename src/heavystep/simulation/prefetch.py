"""A hint to the processor: this part of an array is wanted soon.

Rows sampled at random lie anywhere in memory; without the hint each of them is waited for. They
go to the second level of the cache, which takes more of them at once than the first.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic

POINTER, INTEGER = ir.IntType(8).as_pointer(), ir.IntType(32)
READ, SECOND_LEVEL, DATA = INTEGER(0), INTEGER(2), INTEGER(1)
SIGNATURE = ir.FunctionType(ir.VoidType(), [POINTER, INTEGER, INTEGER, INTEGER])


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    address = builder.bitcast(builder.gep(array.data, [arguments[1]]), POINTER)
    declare: Any = get_or_insert_function
    fetch = declare(builder.module, SIGNATURE, "llvm.prefetch.p0i8")
    builder.call(fetch, [address, READ, SECOND_LEVEL, DATA])
    return context.get_dummy_value()


def _prefetch(typing_context: Any, array: Any, position: Any) -> Any:
    """Begin to load ``array[position]``; changes nothing, whatever the position."""
    return types.void(array, position), _generate


prefetch: Any = intrinsic(_prefetch)
