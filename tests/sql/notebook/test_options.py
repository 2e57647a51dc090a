"""The first line of a cell: read as typed values, refused in words."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import OptionError
from penstock.sql.notebook.options import CellOptions, read_cell_options


def test_a_line_without_options_has_their_defaults() -> None:
    """Twenty rows, no variable, no bound."""
    assert read_cell_options("") == CellOptions(limit=20)


def test_options_are_read() -> None:
    """A value may be quoted; `-v` may be given several times."""
    found = read_cell_options(
        "--limit 5 -v a=1 -v 'b=two words' --available-now --seconds 2.5 --out df"
    )

    assert found == CellOptions(
        limit=5,
        variables={"a": "1", "b": "two words"},
        available_now=True,
        seconds=2.5,
        out="df",
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--limit none", "'none' is not a number of rows"),
        ("--rows 0", "'0' is not a number of rows"),
        ("--seconds -1", "is not a number of seconds"),
        ("-v day", "a variable is NAME=VALUE"),
        ("--out 2x", "'2x' is not the name of a variable"),
        ("--limi 3", "unrecognized arguments"),
        ("'open", "No closing quotation"),
    ],
)
def test_a_wrong_option_is_an_error_of_penstock(line: str, why: str) -> None:
    """The parser would end the process."""
    with pytest.raises(OptionError, match=why):
        read_cell_options(line)
