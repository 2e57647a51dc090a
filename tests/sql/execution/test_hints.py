"""The SQL type of what a plain Python function gives."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from penstock.catalog.errors import DefinitionError
from penstock.sql.execution.functions import result_type


def giving(hint: Any) -> Callable[..., Any]:
    """A function with this hint of its result."""

    def function(x):  # type: ignore[no-untyped-def]
        return x

    function.__annotations__["return"] = hint
    return function


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (int, "BIGINT"),
        (bool, "BOOLEAN"),
        (str | None, "STRING"),
        (decimal.Decimal, "DECIMAL(38, 18)"),
        (dt.datetime, "TIMESTAMP_NTZ"),
        (list[float], "ARRAY<DOUBLE>"),
        (dict[str, list[int]] | None, "MAP<STRING, ARRAY<BIGINT>>"),
    ],
)
def test_a_hint_names_a_type(hint: Any, kind: str) -> None:
    """None beside it changes nothing: every result may be NULL."""
    assert result_type(giving(hint), owner="function f") == kind


@pytest.mark.parametrize("hint", [None, int | str, set[int], list, pd.Series, object])
def test_a_hint_that_names_none_is_refused(hint: Any) -> None:
    """With the decorator that would."""
    with pytest.raises(DefinitionError) as caught:
        result_type(giving(hint), owner="function f")

    assert caught.value.hint is not None
    assert "@" in caught.value.hint
