"""The dialect class: tokenizer, parser and generator put together, and what sqlglot asks of a dialect."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy
from sqlglot.optimizer.annotate_types import TypeAnnotator

from penstock.sql.dialect.flink.compiled_sqlglot import refuse_compiled_build

refuse_compiled_build()

from penstock.sql.dialect.flink.tokens import FlinkTokenizer  # noqa: E402
from penstock.sql.dialect.functions.result_types import interval_type, made_type  # noqa: E402
from penstock.sql.dialect.functions.table import FUNCTIONS, result_argument  # noqa: E402
from penstock.sql.dialect.generator.flink_generator import FlinkGenerator  # noqa: E402
from penstock.sql.dialect.parser.flink_parser import FlinkParser  # noqa: E402


def _annotate_function(annotator: TypeAnnotator, node: exp.Expr) -> exp.Expr:
    """The type of a function's result, from the table of functions."""
    row = FUNCTIONS.get(node.name.upper())
    kind = made_type(node.name.upper(), node.expressions)
    if (argument := result_argument(row, node.expressions)) is not None:
        kind = argument.type
    elif row and row.returns and not row.returns.startswith("<"):
        kind = exp.DataType.build(row.returns, dialect=Flink)
    return annotator._set_type(node, kind)  # noqa: SLF001 - how every annotator of sqlglot does it


def _annotate_access(annotator: TypeAnnotator, node: exp.Expr) -> exp.Expr:
    """The type of an element of an array, or of a value of a map."""
    kind = node.this.type
    inner = kind.expressions if kind is not None else []
    found = inner[-1] if inner and kind.is_type(exp.DType.ARRAY, exp.DType.MAP) else None
    return annotator._set_type(node, found)  # noqa: SLF001


def _annotate_average(annotator: TypeAnnotator, node: exp.Expr) -> exp.Expr:
    """AVG of whole numbers is whole in Flink."""
    kind = node.this.type
    whole = kind is not None and kind.is_type(*exp.DataType.INTEGER_TYPES)
    return annotator._set_type(node, kind if whole else exp.DType.DOUBLE)  # noqa: SLF001


def _annotate_interval(annotator: TypeAnnotator, node: exp.Interval) -> exp.Expr:
    """Of months or of milliseconds, which sqlglot does not tell apart."""
    return annotator._set_type(node, interval_type(node))  # noqa: SLF001


class Flink(Dialect):
    """Flink SQL, as of Flink 2.2."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE
    TYPED_DIVISION = True
    SUPPORTS_USER_DEFINED_TYPES = False
    SUPPORTS_COLUMN_JOIN_MARKS = False
    LEAST_GREATEST_IGNORES_NULLS = False
    EXPRESSION_METADATA = {  # noqa: RUF012 - sqlglot declares it so
        **Dialect.EXPRESSION_METADATA,
        exp.Anonymous: {"annotator": _annotate_function},
        exp.AnonymousAggFunc: {"annotator": _annotate_function},
        exp.Bracket: {"annotator": _annotate_access},
        exp.Avg: {"annotator": _annotate_average},
        exp.Interval: {"annotator": _annotate_interval},
        exp.CurrentTimestamp: {"returns": exp.DType.TIMESTAMPLTZ},
        exp.Localtimestamp: {"returns": exp.DType.TIMESTAMPNTZ},
        exp.Extract: {"returns": exp.DType.BIGINT},
    }

    Tokenizer = FlinkTokenizer
    Parser = FlinkParser
    Generator = FlinkGenerator
