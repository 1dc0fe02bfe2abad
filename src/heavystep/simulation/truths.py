"""Comparisons of fours in kernels: four answers at once, so that rules run on fours as written.

An answer is a number with all of its bits set, or none: what processors choose between fours by.
"""

import math
import operator
from typing import Any

from llvmlite import ir
from numba.core import codegen, config, types
from numba.extending import intrinsic, models, overload, register_jitable, register_model

from heavystep import rules
from heavystep.rules.primitives import PYTHON
from heavystep.simulation.fours import (
    FOUR,
    LOWERING,
    PAIRS,
    TEMPLATES,
    WIDTH,
    call_on_fours,
    spread,
)

CODEGEN: Any = codegen
CONFIG: Any = config
ANSWERS = ir.VectorType(ir.IntType(64), WIDTH)
BITS = ir.VectorType(ir.IntType(1), WIDTH)


class TruthsType(types.Type):
    """Four answers."""

    def __init__(self) -> None:
        super().__init__(name="Truths")


TRUTHS = TruthsType()
WIDE = (FOUR, TRUTHS)


@register_model(TruthsType)
class _TruthsModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ANSWERS)  # type: ignore[no-untyped-call]


def _answers(builder: Any, bits: Any) -> Any:
    return builder.sext(bits, ANSWERS)


def _bits(builder: Any, answers: Any) -> Any:
    """One bit each; of a single answer, four times the same."""
    if answers.type == ANSWERS:
        return builder.icmp_signed("<", answers, ir.Constant(ANSWERS, [0] * WIDTH))
    return spread(builder, builder.trunc(answers, ir.IntType(1)), BITS)


def _wide(builder: Any, answers: Any) -> Any:
    """Four answers as they are, or one four times."""
    return answers if answers.type == ANSWERS else _answers(builder, _bits(builder, answers))


def _define(operation: Any, result: Any, lower: Any, *arguments: tuple[Any, ...]) -> None:
    class Typing(TEMPLATES.ConcreteTemplate):  # type: ignore[misc]
        cases = tuple(TEMPLATES.signature(result, *kinds) for kinds in arguments)

    def implementation(context: Any, builder: Any, made: Any, values: Any) -> Any:
        return lower(builder, values)

    TEMPLATES.infer_global(operation)(Typing)
    for kinds in arguments:
        LOWERING.lower_builtin(operation, *kinds)(implementation)


def _fit_a_register() -> bool:
    """Whether the processor that is compiled for has registers for four answers."""
    chosen = CONFIG.CPU_FEATURES
    features: str = CODEGEN.get_host_cpu_features() if chosen is None else chosen
    return "+avx" in features.split(",")


def _settled(builder: Any, answers: Any) -> Any:
    """The same answers, of which the compiler does not know where they come from.

    Of answers that are kept from one turn of a loop to the next it would make single bits, and
    vectors again of those, which takes longer than the numbers. What is kept is that one answer
    and another hold; a comparison that is used at once needs nothing.
    """
    if not _fit_a_register():
        return answers
    return builder.asm(ir.FunctionType(ANSWERS, [ANSWERS]), "", "=x,0", [answers], False)


def _comparison(sign: str) -> Any:
    # Of a NaN all are false, but for "!=".
    compare = "fcmp_unordered" if sign == "!=" else "fcmp_ordered"

    def lower(builder: Any, values: Any) -> Any:
        left, right = (spread(builder, value) for value in values)
        return _answers(builder, getattr(builder, compare)(sign, left, right))

    return lower


def _as_it_is(builder: Any, answers: Any) -> Any:
    return answers


def _logic(instruction: str, end: Any) -> Any:
    def lower(builder: Any, values: Any) -> Any:
        left, right = (_wide(builder, value) for value in values)
        return end(builder, getattr(builder, instruction)(left, right))

    return lower


for _sign, _operation in {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}.items():  # fmt: skip
    _define(_operation, TRUTHS, _comparison(_sign), *PAIRS)
_TWO = ((TRUTHS, TRUTHS), (TRUTHS, types.boolean), (types.boolean, TRUTHS))
_define(operator.and_, TRUTHS, _logic("and_", _settled), *_TWO)
_define(operator.or_, TRUTHS, _logic("or_", _as_it_is), *_TWO)
_define(abs, FOUR, lambda builder, values: call_on_fours(builder, "fabs", values), (FOUR,))
_define(math.sqrt, FOUR, lambda builder, values: call_on_fours(builder, "sqrt", values), (FOUR,))


def _select(typing_context: Any, condition: Any, if_true: Any, if_false: Any) -> Any:
    """``if_true`` where the condition holds, else ``if_false``."""
    truths = all(isinstance(kind, (TruthsType, types.Boolean)) for kind in (if_true, if_false))

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        bits, kinds = _bits(builder, values[0]), made.args[1:]
        if truths:
            left, right = (_wide(builder, value) for value in values[1:])
        else:
            pairs = zip(values[1:], kinds, strict=True)
            left, right = (spread(builder, _real(context, builder, *pair)) for pair in pairs)
        return builder.select(bits, left, right)

    return (TRUTHS if truths else FOUR)(condition, if_true, if_false), lower


def _real(context: Any, builder: Any, value: Any, kind: Any) -> Any:
    return value if kind is FOUR else context.cast(builder, value, kind, types.float64)


def _count(typing_context: Any, truths: Any) -> Any:
    """How many of four answers are true, as bits of a number: 0 for none, 15 for all."""

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        mask = builder.bitcast(_bits(builder, values[0]), ir.IntType(WIDTH))
        return builder.zext(mask, ir.IntType(64))

    return types.int64(TRUTHS), lower


def _as_four(typing_context: Any, number: Any) -> Any:
    """A number four times, or a four as it is."""

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        return spread(builder, _real(context, builder, values[0], made.args[0]))

    return FOUR(number), lower


def _as_truths(typing_context: Any, answer: Any) -> Any:
    """An answer four times, or four answers as they are."""

    def lower(context: Any, builder: Any, made: Any, values: Any) -> Any:
        return _wide(builder, values[0])

    return TRUTHS(answer), lower


select: Any = intrinsic(_select)
as_four: Any = intrinsic(_as_four)
as_truths: Any = intrinsic(_as_truths)
_mask: Any = intrinsic(_count)


@register_jitable
def _least(a: Any, b: Any) -> Any:
    return select((a < b) | (a != a), a, b)


@register_jitable
def _most(a: Any, b: Any) -> Any:
    return select((a > b) | (a != a), a, b)


@register_jitable
def _any(truths: Any) -> Any:
    return _mask(truths) != 0


def is_wide(*kinds: Any) -> bool:
    """Whether one of these numba types is that of four numbers or answers."""
    return any(kind in WIDE for kind in kinds)


# Not strict: numba compares annotations as well as names.
@overload(rules.where, strict=False)
def _where(condition: Any, if_true: Any, if_false: Any) -> Any:
    if not is_wide(condition, if_true, if_false):
        return PYTHON.where
    return lambda condition, if_true, if_false: select(condition, if_true, if_false)


@overload(rules.minimum, strict=False)
def _minimum(a: Any, b: Any) -> Any:
    return (lambda a, b: _least(a, b)) if is_wide(a, b) else PYTHON.minimum


@overload(rules.maximum, strict=False)
def _maximum(a: Any, b: Any) -> Any:
    return (lambda a, b: _most(a, b)) if is_wide(a, b) else PYTHON.maximum


@overload(rules.some, strict=False)
def _some(condition: Any) -> Any:
    return (lambda condition: _any(condition)) if is_wide(condition) else PYTHON.some


def every(truths: Any) -> Any:
    """Whether all four answers are true."""
    raise NotImplementedError


@overload(every, strict=False)
def _every(truths: Any) -> Any:
    return lambda truths: _mask(truths) == 2**WIDTH - 1
