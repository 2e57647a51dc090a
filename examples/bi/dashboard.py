"""A dashboard as a program: asks the server over PyHive, as BI tools do over JDBC and ODBC."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Self

from pyhive import hive

LOOK_INTERVAL_S = 0.5
QUERIES = Path(__file__).resolve().parent / "queries"
COMPLETE = QUERIES / "5_complete_orders.sql"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows of a query; `title` is its first comment."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    seconds: float


class TornError(Exception):
    """A query saw a part of a commit."""


class Dashboard:
    """A connection to the server, and what is asked over it; it is closed at the end."""

    def __init__(self, connection: hive.Connection) -> None:
        self._connection = connection

    def answers(self) -> list[Answer]:
        """Run all queries of the folder."""
        return [self.ask(file) for file in sorted(QUERIES.glob("*.sql"))]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def rows(self, query: str) -> tuple[tuple[tuple[Any, ...], ...], tuple[str, ...]]:
        """Run a query: its rows and its columns."""
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            rows = tuple(cursor.fetchall())
            return rows, tuple(column[0].rpartition(".")[2] for column in cursor.description)

    def ask(self, file: Path) -> Answer:
        """Run the query of a file."""
        text = file.read_text(encoding="utf-8")
        before = time.monotonic()
        rows, columns = self.rows(text)
        return Answer(
            title=text.splitlines()[0].removeprefix("-- "),
            columns=columns,
            rows=rows,
            seconds=time.monotonic() - before,
        )

    def wait_for_orders(self, orders: int, timeout_s: float) -> int:
        """Look until all orders are in both fact tables; gives how often it looked. Raises TornError, TimeoutError."""
        deadline, looks = time.monotonic() + timeout_s, 0
        while time.monotonic() < deadline:
            looks += 1
            if self.ask(COMPLETE).rows != ((0,),):
                raise TornError("an order was there with a part of its lines")
            ((there, lines),), _ = self.rows(
                "SELECT COUNT(DISTINCT order_id), COUNT(*) FROM star.fact_order_lines"
            )
            ((summed,),), _ = self.rows("SELECT SUM(order_lines) FROM star.fact_daily_sales")
            if there == orders and summed == lines:
                return looks
            Event().wait(LOOK_INTERVAL_S)
        raise TimeoutError(f"after {timeout_s:.0f} s {there:,} of {orders:,} orders are there")
