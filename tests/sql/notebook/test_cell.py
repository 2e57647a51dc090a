"""`%%penstock` in an IPython shell, on Spark: what a cell shows, keeps and refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from pyspark.sql import SparkSession

import penstock
from penstock.sql.notebook import extension
from penstock.sql.notebook.views import JobsView, LiveView, Note, TableView, View

ORDERS = """
CREATE TABLE orders (id BIGINT, amount DOUBLE, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'filesystem', 'path' = 'orders', 'format' = 'json',
      'source.monitor-interval' = '100 ms');
"""


class Recorder:
    """A screen that remembers; a place's newest view stands where the first one stood."""

    def __init__(self) -> None:
        self.views: list[View] = []

    def __call__(self, view: View) -> Recorder.Place:
        self.views.append(view)
        return Recorder.Place(self.views, len(self.views) - 1)

    class Place:
        """One of the views."""

        def __init__(self, views: list[View], index: int) -> None:
            self._views, self._index = views, index

        def update(self, view: View, *, last: bool = False) -> None:
            """Show another view there."""
            self._views[self._index] = view


@pytest.fixture
def shell(spark: SparkSession, project: Path) -> Iterator[Any]:
    """A shell with the extension and a session, in a project with two orders."""
    (project / "orders").mkdir()
    lines = [{"id": n, "amount": 1.5 * n, "at": f"2024-05-01 10:00:0{n}.000"} for n in (1, 2)]
    (project / "orders" / "a.json").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "penstock.magic")
    with penstock.connect(spark) as session:
        shell.user_ns["session"] = session
        yield shell
    shell.run_line_magic("unload_ext", "penstock.magic")
    InteractiveShell.clear_instance()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """What the cells show."""
    recorder = Recorder()
    monkeypatch.setattr(extension, "screen_of", lambda _: recorder)
    return recorder


def test_a_cell_runs_its_statements_in_order(shell: Any, screen: Recorder) -> None:
    """Definitions say that they are done, a SELECT shows rows with types, an INSERT its job; variables fill templates."""
    shell.run_cell_magic(
        "penstock",
        "-v least=2 --available-now --out job",
        ORDERS
        + """
        CREATE TABLE large (id BIGINT) WITH ('connector' = 'delta', 'path' = 'large');
        INSERT INTO large SELECT id FROM orders WHERE amount > {{ var('least') }};""",
    )
    shell.run_cell_magic("penstock", "--limit 1", "SHOW TABLES; SELECT * FROM large")
    shell.user_ns["job"].await_termination(30)
    kinds = [type(view) for view in screen.views]

    assert kinds == [Note, Note, JobsView, TableView, TableView]
    assert screen.views[2].jobs[0].progress.status == "finished"
    assert screen.views[4].heads[0].type == "BIGINT"
    assert screen.views[4].rows == ((2,),)


def test_a_query_without_end_shows_its_newest_rows_until_it_has_shown_enough(
    shell: Any, screen: Recorder
) -> None:
    """With what changes in front, its watermark, and the state in which it ended."""
    shell.run_cell_magic("penstock", "", ORDERS)
    shell.run_cell_magic(
        "penstock", "--rows 2 --seconds 60", "SELECT id, COUNT(*) AS n FROM orders GROUP BY id"
    )
    view = screen.views[-1]

    assert isinstance(view, LiveView)
    assert view.ended == "ended by --rows 2"
    assert not view.starting
    assert sorted(view.table.rows) == [("+I", 1, 1), ("+I", 2, 1)]
    assert view.samples


def test_a_query_whose_condition_no_row_meets_says_so(shell: Any, screen: Recorder) -> None:
    """Where nothing is to be seen, the reason is."""
    shell.run_cell_magic("penstock", "", ORDERS)
    shell.run_cell_magic(
        "penstock",
        "--seconds 4",
        "SELECT id, COUNT(*) AS n FROM orders WHERE amount > 9 GROUP BY id",
    )
    view = screen.views[-1]

    assert isinstance(view, LiveView)
    assert view.table.rows == []
    assert view.sentence == "2 rows of the last batch are read, and the query let none through"


def test_a_wrong_cell_is_told_with_its_place_before_anything_runs(
    shell: Any, screen: Recorder, project: Path
) -> None:
    """As text with a caret, not as a traceback; the first statement did not run either."""
    shell.run_cell_magic("penstock", "", ORDERS + "SELECT amont FROM orders")
    (view,) = screen.views

    assert isinstance(view, Note)
    assert view.is_error
    assert "did you mean 'amount'" in view.text
    assert "cell:5:8" in view.text
    assert shell.user_ns["session"].namespace.tables() == []


def test_a_terminal_gets_text(
    shell: Any,
    screen: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A shell without a kernel shows no HTML."""
    monkeypatch.undo()
    shell.run_cell_magic("penstock", "", "VALUES (1, 'a')")

    assert "1  a" in capsys.readouterr().out.replace("   ", "  ")
