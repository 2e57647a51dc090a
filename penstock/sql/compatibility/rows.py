"""All rows, family by family: each family is a module with one tuple of rows."""

from __future__ import annotations

from penstock.sql.compatibility.definitions import DEFINITIONS
from penstock.sql.compatibility.expressions import EXPRESSIONS
from penstock.sql.compatibility.formats import FORMATS
from penstock.sql.compatibility.functions import FUNCTION_ROWS
from penstock.sql.compatibility.queries import HINTS, QUERIES
from penstock.sql.compatibility.row import Row
from penstock.sql.compatibility.statements import STATEMENTS
from penstock.sql.compatibility.types import TYPES

__all__ = ["ROWS"]

ROWS: tuple[Row, ...] = (
    *DEFINITIONS,
    *STATEMENTS,
    *QUERIES,
    *HINTS,
    *EXPRESSIONS,
    *FUNCTION_ROWS,
    *TYPES,
    *FORMATS,
)
"""Every row of every family, in the order of the page."""
