"""What of Flink SQL Penstock runs, as data: the tables behind docs/flink-compatibility.md and its tests.

row.py is the shape of a row; each family of rows has a module of its own, and rows.py lists them all;
tables.py has the tables that examples are over; page.py writes the page (`python -m penstock.sql.compatibility`).
A row without a test cannot exist: tests/sql/test_compatibility.py takes every row through parser, writer and checks.
"""

from __future__ import annotations

from penstock.sql.compatibility.row import Kind, Row, Status

__all__ = ["Kind", "Row", "Status"]
