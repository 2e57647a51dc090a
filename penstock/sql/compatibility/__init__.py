"""What of Flink SQL Penstock runs, as data: the tables behind docs/flink-compatibility.md and its tests.

row.py is the shape of a row; families of rows have modules of their own, tables.py the tables that examples are over;
page.py lists all rows and writes the page (`python -m penstock.sql.compatibility`).
A row without a test cannot exist: tests/sql/test_compatibility.py takes every row through parser, writer and checks.
"""

from __future__ import annotations

from penstock.sql.compatibility.row import Kind, Row, Status

__all__ = ["Kind", "Row", "Status"]
