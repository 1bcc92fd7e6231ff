"""Eight numbers at once in Numba: a type for a vector of doubles and the few operations that the samplers need of it.

LLVM turns them into the instructions of the present processor. `models.host.compilation.compiled` makes functions of them.
Numba's cache identifies a function by the content of its file alone: after a change of this file, empty the cache, or change
the files that use it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import models as numba_models
from numba.extending import register_model

from models.host.compilation import LANES, compiled

INT32, DOUBLE = ir.IntType(32), ir.DoubleType()
VECTOR = ir.VectorType(DOUBLE, LANES)


def intrinsic(function: Callable[..., Any]) -> Any:
    """Numba's decorator of functions written as LLVM instructions, typed."""
    return numba_intrinsic(function)


class Lanes(types.Type):  # type: ignore[misc]
    """The type of eight doubles in one register."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


@register_model(Lanes)
class _LanesModel(numba_models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


lanes = Lanes()


def _indices(values: list[int]) -> Any:
    return ir.Constant(ir.VectorType(INT32, len(values)), values)


def _place(context: Any, builder: Any, kind: Any, where: Any, element: Any) -> Any:
    """The address of ``array[index]``, where = (array, index), as that of an element of another type."""
    array, index = where
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), element.as_pointer())


def _splat(builder: Any, value: Any, size: int) -> Any:
    undefined = ir.Constant(ir.VectorType(value.type, size), ir.Undefined)
    first = builder.insert_element(undefined, value, INT32(0))
    return builder.shuffle_vector(first, undefined, _indices([0] * size))


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """``array[index : index + 8]`` of doubles, or of 32-bit integers as doubles."""
    whole = isinstance(array.dtype, types.Integer)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        element = ir.VectorType(INT32, LANES) if whole else VECTOR
        value = builder.load(_place(context, builder, signature.args[0], arguments, element))
        value.align = 4 if whole else 8
        return builder.sitofp(value, VECTOR) if whole else value

    return lanes(array, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """``array[index : index + 8] = value``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = _place(context, builder, signature.args[0], arguments[:2], VECTOR)
        builder.store(arguments[2], where).align = 8
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


@intrinsic
def splat(typing: Any, value: Any) -> Any:
    """One number eight times."""
    return lanes(types.float64), lambda context, builder, signature, arguments: _splat(builder, arguments[0], LANES)


@intrinsic
def add(typing: Any, a: Any, b: Any) -> Any:
    """A + b."""
    return lanes(lanes, lanes), lambda context, builder, signature, arguments: builder.fadd(*arguments)


@intrinsic
def product(typing: Any, a: Any, b: Any) -> Any:
    """A b."""
    return lanes(lanes, lanes), lambda context, builder, signature, arguments: builder.fmul(*arguments)


@intrinsic
def maximum(typing: Any, a: Any, b: Any) -> Any:
    """The larger of a and b, neither of which is NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return lanes(lanes, lanes), generate


@intrinsic
def where_positive(typing: Any, condition: Any, value: Any) -> Any:
    """The value where the condition is above 0, and 0 elsewhere."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zeros = ir.Constant(VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered(">", arguments[0], zeros), arguments[1], zeros)

    return lanes(lanes, lanes), generate


@intrinsic
def add_product(typing: Any, total: Any, a: Any, b: Any) -> Any:
    """Total + a b, rounded once where the machine can."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        product = builder.fmul(*arguments[1:], flags=("contract",))
        return builder.fadd(product, arguments[0], flags=("contract",))

    return lanes(lanes, lanes, lanes), generate


@intrinsic
def running_sums(typing: Any, value: Any) -> Any:
    """Sums of the first 1, 2, …, 8 numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, zeros = arguments[0], ir.Constant(VECTOR, [0.0] * LANES)
        for step in (1, 2, 4):
            moved = _indices([LANES if lane < step else lane - step for lane in range(LANES)])
            sums = builder.fadd(sums, builder.shuffle_vector(sums, zeros, moved))
        return sums

    return lanes(lanes), generate


@intrinsic
def last(typing: Any, value: Any) -> Any:
    """The last of eight numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_element(arguments[0], INT32(LANES - 1))

    return types.float64(lanes), generate


@intrinsic
def count_up_to(typing: Any, values: Any, limit: Any) -> Any:
    """How many of the eight numbers are not above the limit."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        below = builder.fcmp_ordered("<=", arguments[0], _splat(builder, arguments[1], LANES))
        return builder.zext(builder.ctpop(builder.bitcast(below, ir.IntType(LANES))), ir.IntType(64))

    return types.intp(lanes, types.float64), generate


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of ``array[index]``, soon to be read and written."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        where = _place(context, builder, signature.args[0], arguments, ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [byte, INT32, INT32, INT32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [where, INT32(1), INT32(3), INT32(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def matches(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Which of ``array[index : index + 16]``, 32-bit integers, equal the value: one bit each."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        element = ir.VectorType(INT32, 2 * LANES)
        numbers = builder.load(_place(context, builder, signature.args[0], arguments[:2], element))
        numbers.align = 4
        equal = builder.icmp_signed("==", numbers, _splat(builder, arguments[2], 2 * LANES))
        return builder.zext(builder.bitcast(equal, ir.IntType(2 * LANES)), ir.IntType(64))

    return types.intp(array, types.intp, types.int32), generate


@intrinsic
def first_bit(typing: Any, bits: Any) -> Any:
    """The place of the lowest bit that is set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.intp(types.intp), generate


@compiled
def next_random(s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """Xoshiro256++ (Blackman and Vigna, 2021), four 64-bit integers: -> their successors and a number in [0, 1)."""
    total = s0 + s3
    bits = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    moved = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= moved
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return s0, s1, s2, s3, (bits >> np.uint64(11)) * 2.0**-53
