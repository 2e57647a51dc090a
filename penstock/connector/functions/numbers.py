"""Functions of numbers on Arrow arrays; arguments of one type, unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc


def _divide(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    """Divide fractions; by a zero of either sign the quotient is infinite with the sign of the dividend."""
    dividend, divisor = values
    return pc.divide(dividend, pc.add(divisor, 0.0))


def _remainder(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    """Return the remainder of whole numbers, with the sign of the dividend. Raises ArrowInvalid for a divisor of 0."""
    dividend, divisor = values
    # the least number has no quotient by -1; the remainder is that by 1
    safe = pc.if_else(pc.equal(divisor, -1), pa.scalar(1, divisor.type), divisor)
    return pc.subtract(dividend, pc.multiply(pc.divide_checked(dividend, safe), safe))


def _whole(function: Callable[[pa.Array], pa.Array]) -> Callable[..., pa.Array]:
    """Return CEIL or FLOOR: of fractions without -0.0, of decimals in the type of the result."""

    def rounded(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
        (value,) = values
        if pa.types.is_floating(kind):
            return pc.add(function(value), 0.0)
        return function(_wide(value)).cast(kind)

    return rounded


def _round(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Round a DECIMAL, half away from zero."""
    value, digits = values
    found = pc.round(_wide(value), digits.as_py(), round_mode="half_towards_infinity")
    return found.cast(kind, safe=False)


def _wide(value: pa.Array) -> pa.Array:
    """Return DECIMALs with as many digits as there may be: Arrow rounds without one more than they have."""
    return value.cast(pa.decimal128(38, value.type.scale))


def _sign(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    (value,) = values
    # a zero keeps its sign
    return pc.if_else(pc.equal(value, pa.scalar(0, kind)), value, pc.sign(value).cast(kind))


def _extreme(function: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    return lambda values, _: function(*values, skip_nulls=False)


NUMBER_FUNCTIONS: Mapping[str, Callable[[list[pa.Array], pa.DataType], pa.Array]] = {
    # of whole numbers an overflow is an error
    "add": lambda v, _: pc.add_checked(*v),
    "subtract": lambda v, _: pc.subtract_checked(*v),
    "multiply": lambda v, _: pc.multiply_checked(*v),
    "divide": _divide,
    "quotient": lambda v, _: pc.divide_checked(*v),
    "remainder": _remainder,
    "abs": lambda v, _: pc.abs_checked(v[0]),
    "negate": lambda v, _: pc.negate(v[0]),
    "sign": _sign,
    "sqrt": lambda v, _: pc.sqrt(v[0]),
    "ceil": _whole(pc.ceil),
    "floor": _whole(pc.floor),
    "round": _round,
    "greatest": _extreme(pc.max_element_wise),
    "least": _extreme(pc.min_element_wise),
}
