"""Read the functions before OVER: which of them stages compute over a stream.

Flink's rules and messages: AggFunctionFactory.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.plan.clauses.aggregates import without_filter
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = ["Call", "read_call"]

_AGGREGATES = (
    exp.Avg, exp.Count, exp.FirstValue, exp.GroupConcat, exp.LastValue, exp.Max, exp.Min, exp.Stddev, exp.StddevPop,
    exp.StddevSamp, exp.Sum, exp.Variance, exp.VariancePop,
)  # fmt: skip

_NO_DISTINCT = (exp.Max, exp.Min)
"""Aggregates that ignore duplicates of a value."""

_DISTINCT = (exp.Count, exp.Sum, *_NO_DISTINCT)

_TO_THE_END: dict[type[exp.Expr], str] = {
    exp.Lead: "LEAD", exp.Ntile: "NTILE", exp.PercentRank: "PERCENT_RANK", exp.CumeDist: "CUME_DIST",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function before OVER: `core` without FILTER and NULLS clauses, the `condition` of its FILTER.

    `back` is the number of rows that LAG looks back, None for other functions. `all_nulls`: RESPECT NULLS.
    """

    core: exp.Expr
    condition: exp.Expr | None = None
    back: int | None = None
    all_nulls: bool = False

    @property
    def numbers(self) -> bool:
        """Whether it is ROW_NUMBER, which has no frame."""
        return isinstance(self.core, exp.RowNumber)


def read_call(function: exp.Expr, place: exp.Expr) -> Call | Refusal:
    """Read the function before an OVER; a refusal, at `place`, for one that is unsupported on streams."""
    aggregate, condition = without_filter(function)
    core, all_nulls = aggregate, False
    if isinstance(core, exp.RespectNulls | exp.IgnoreNulls):
        all_nulls, core = isinstance(core, exp.RespectNulls), core.this
    if isinstance(core, exp.RowNumber):
        return Call(core=core)
    if isinstance(core, exp.Lag):
        back = _back(core, aggregate, place)
        return back if isinstance(back, Refusal) else Call(core=core, back=back)
    if (refusal := _refusal(core, place)) is not None:
        return refusal
    kept = isinstance(core, exp.FirstValue | exp.LastValue) and all_nulls
    if condition is not None and (kept or (isinstance(core, exp.Count) and core.expressions)):
        return Refusal(
            message=f"{to_text(core)} with a FILTER is not supported OVER a stream",
            hint="write the condition into its argument: CASE WHEN ... THEN ... END",
            span=span_of(place),
        )
    return Call(core=_settled(core), condition=condition, all_nulls=kept)


def _back(core: exp.Lag, whole: exp.Expr, place: exp.Expr) -> int | Refusal:
    offset = core.args.get("offset")
    whole_number = offset is None or (isinstance(offset, exp.Literal) and offset.is_int)
    if not whole_number or whole is not core:
        return Refusal(
            message=f"{to_text(whole)} is not supported OVER a stream: LAG looks back by a fixed number of rows, "
            "whatever is in them",
            hint="LAG(x, 2, 0) is the x two rows before, 0 where there is none",
            span=span_of(place),
        )
    return 1 if offset is None else int(offset.name)


def _refusal(core: exp.Expr, place: exp.Expr) -> Refusal | None:
    """Return why a function cannot be computed row by row; None where it can."""
    if type(core) in _TO_THE_END:
        return Refusal(
            message=f"{_TO_THE_END[type(core)]} Function is not supported in stream mode: it depends on rows that are "
            "still to come",
            hint="LAG(x) gives the value of the row before; swap what is earlier and what is later",
            span=span_of(place),
        )
    text = to_text(core)
    if isinstance(core, exp.Rank | exp.DenseRank):
        return Refusal(
            message=f"{text} OVER a stream without a bound is not supported",
            hint="ROW_NUMBER() numbers rows as the watermark passes them; RANK takes a bound: WHERE n <= 10 in the "
            "query around it",
            span=span_of(place),
        )
    if not isinstance(core, _AGGREGATES):
        return Refusal(
            message=f"{text} OVER a stream is not supported",
            hint="what is: COUNT, SUM, AVG, MIN, MAX, FIRST_VALUE, LAST_VALUE, LAG, ROW_NUMBER, LISTAGG, STDDEV_POP, "
            "STDDEV_SAMP, VAR_POP, VAR_SAMP",
            span=span_of(place),
        )
    distinct = isinstance(core.this, exp.Distinct)
    if distinct and not isinstance(core, _DISTINCT):
        return Refusal(
            message=f"{text} OVER a stream is not supported: of DISTINCT values COUNT and SUM are",
            hint="leave DISTINCT out, or aggregate with GROUP BY",
            span=span_of(place),
        )
    if distinct and len(core.this.expressions) > 1:
        return Refusal(
            message=f"{text} OVER a stream is not supported: DISTINCT takes one value there",
            hint="make one of them: COUNT(DISTINCT ROW(a, b))",
            span=span_of(place),
        )
    return None


def _settled(core: exp.Expr) -> exp.Expr:
    """Remove DISTINCT where it has no effect."""
    if isinstance(core, _NO_DISTINCT) and isinstance(core.this, exp.Distinct):
        plain = core.copy()
        plain.set("this", core.this.expressions[0].copy())
        return plain
    return core
