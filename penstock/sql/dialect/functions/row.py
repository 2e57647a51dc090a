"""The row of the table of built-in functions: what is known of one function, and how rows are written down.

A form is Spark SQL text with {0}, {1}, ... for the arguments, {*} for all of them, {{ and }} for braces. Where an
argument stands in a lambda, the lambda's variables begin with two underscores: a column could have their name. The
rows themselves are in `text.py`, `numbers.py`, `time.py`, `collections.py` and `other.py`; `table.py` puts them
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

FIRST, LAST = "<first>", "<last>"
"""`returns` of a function whose result has the type of its first, or last, argument."""


class Family(StrEnum):
    """The sections of Flink's page of built-in functions."""

    ARITHMETIC = "arithmetic"
    STRING = "string"
    TEMPORAL = "temporal"
    CONDITIONAL = "conditional"
    CONVERSION = "type conversion"
    COLLECTION = "collection"
    JSON = "JSON"
    VARIANT = "variant"
    CONSTRUCTION = "value construction"
    GROUPING = "grouping"
    HASH = "hash"
    AGGREGATE = "aggregate"
    AUXILIARY = "auxiliary"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionRow:
    """One function.

    `forms` are by the number of arguments; `any_form` is for `least` arguments or more. `method`: the
    form depends on types, and is a function of the writer (FUNCTION_WRITERS). `refusal` (what to write
    instead, or why not) excludes forms. `example` is a call without columns, `note` says what differs from Flink.
    """

    name: str
    family: Family
    returns: str | None = None
    forms: Mapping[int, str] = field(default_factory=dict)
    any_form: str | None = None
    least: int = 0
    most: int | None = None
    aggregate: bool = False
    method: bool = False
    native: bool = False
    refusal: str | None = None
    example: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse a row that would tell nothing."""
        assert self.example, f"{self.name}: a function without an example"
        assert self.refusal or self.method or self.forms or self.any_form, f"{self.name}: no form"

    def form(self, arguments: int) -> str | None:
        """The Spark text for this number of arguments; None if Flink has no such call."""
        return self.forms.get(arguments, self.any_form if arguments >= self.least else None)

    def takes(self, arguments: int) -> bool:
        """Return whether Flink has a call with this number of arguments."""
        if self.method:
            return self.least <= arguments <= (arguments if self.most is None else self.most)
        return self.form(arguments) is not None

    @property
    def arities(self) -> str:
        """The numbers of arguments allowed, in words: 'no arguments', '2 or 3 arguments'."""
        if self.any_form or (self.method and self.most is None):
            return f"{self.least} or more arguments"
        most = self.least if self.most is None else self.most
        numbers = sorted(self.forms) or range(self.least, most + 1)
        words = " or ".join(str(n) if n else "no" for n in numbers)
        return f"{words} argument" if words == "1" else f"{words} arguments"


def native(
    family: Family, name: str, returns: str | None, example: str, *counts: int, note: str = ""
) -> FunctionRow:
    """A function that Spark has under the same name, with the same meaning, for `counts` arguments."""
    forms = dict.fromkeys(counts, f"{name.lower()}({{*}})")
    return FunctionRow(
        name=name,
        family=family,
        returns=returns,
        forms=forms,
        native=True,
        example=example,
        note=note,
    )


def row(
    family: Family,
    name: str,
    returns: str | None,
    example: str,
    *forms: str,
    least: int = 1,
    note: str = "",
) -> FunctionRow:
    """A function with `forms` for `least`, `least` + 1, ... arguments."""
    by_count = dict(enumerate(forms, start=least))
    return FunctionRow(
        name=name, family=family, returns=returns, forms=by_count, example=example, note=note
    )


def method(
    family: Family,
    name: str,
    returns: str | None,
    example: str,
    least: int,
    most: int | None = None,
    *,
    note: str = "",
) -> FunctionRow:
    """A function whose form is a function of the writer, for `least` to `most` arguments."""
    return FunctionRow(
        name=name,
        family=family,
        returns=returns,
        method=True,
        least=least,
        most=most,
        example=example,
        note=note,
    )


def aggregate(
    name: str, returns: str | None, example: str, least: int = 1, most: int = 1, *, note: str = ""
) -> FunctionRow:
    """An aggregate function; its form is a function of the writer."""
    return FunctionRow(
        name=name,
        family=Family.AGGREGATE,
        returns=returns,
        aggregate=True,
        method=True,
        least=least,
        most=most,
        example=example,
        note=note,
    )


def refused(family: Family, hint: str, **examples: str) -> list[FunctionRow]:
    """Functions that Spark cannot say: names and examples."""
    return [
        FunctionRow(name=name, family=family, refusal=hint, example=example)
        for name, example in examples.items()
    ]
