"""The changes of a query that is followed on the screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlglot

from penstock.catalog.errors import PenstockError
from penstock.connector.contract import OutputMode
from penstock.sql.dialect.rewrites.unfold_grouping_sets import unfold_grouping_sets
from penstock.sql.jobs.live_query import LiveQuery, LiveSelect, Row, UpsertChangelog, result_key


class ScriptedLive:
    """A watched query that hands its batches on from a thread of its own, as Spark does, and then ends."""

    def __init__(self, *batches: list[Row], failure: Exception | None = None) -> None:
        self.shown = SimpleNamespace(columns=["a"])
        self.query = SimpleNamespace(
            output=OutputMode.APPEND, flow=SimpleNamespace(kinds=None), query=None
        )
        self._batches = batches
        self._failure = failure
        self.folder: Path | None = None
        self.thread: Thread | None = None

    def start(self, folder: Path, take: Callable[[list[Row]], None], **_: Any) -> ScriptedLive:
        self.folder = folder
        self.thread = Thread(target=lambda: [take(batch) for batch in self._batches])
        self.thread.start()
        return self

    @property
    def isActive(self) -> bool:  # noqa: N802  as Spark names it
        assert self.thread is not None
        return self.thread.is_alive()

    def exception(self) -> Exception | None:
        return self._failure

    def stop(self) -> None:
        """Wait for the batch, as Spark does."""
        assert self.thread is not None
        self.thread.join(10)
        assert not self.thread.is_alive(), "a batch waits for nobody"


def following(live: ScriptedLive) -> LiveSelect:
    return LiveSelect(cast("LiveQuery", live))


def test_every_row_of_an_endless_select_is_shown_though_more_wait_than_the_queue_holds() -> None:
    """The query waits for whoever looks; what comes at its very end is shown, too."""
    live, seen = ScriptedLive(*([(i,)] for i in range(20))), list[Row]()
    watched = following(live)
    while watched.show(lambda _, rows: seen.extend(rows)):
        pass

    assert seen == [("+I", i) for i in range(20)]
    assert live.folder is not None
    assert not live.folder.exists()


def test_an_endless_select_that_is_stopped_leaves_no_batch_waiting() -> None:
    """Its batch would wait for a place in the queue, and the query for its batch."""
    live = ScriptedLive(*([(i,)] for i in range(20)))
    watched = following(live)

    watched.stop()

    assert not watched.show(lambda *_: None)


def test_an_endless_select_that_fails_says_so_behind_its_last_rows() -> None:
    """Not as an end."""
    seen: list[Row] = []
    live = ScriptedLive([(1,)], failure=ValueError("the disk is full"))
    watched = following(live)
    assert live.thread is not None
    live.thread.join()

    with pytest.raises(PenstockError, match="the disk is full"):
        watched.show(lambda _, rows: seen.extend(rows))
    assert seen == [("+I", 1)]


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT COUNT(*) AS n, a FROM t GROUP BY a", (1,)),
        ("SELECT b AS x, a, COUNT(*) FROM t GROUP BY a, b", (1, 0)),
        ("SELECT a + 1 AS k, COUNT(*) FROM t GROUP BY a + 1", (0,)),
        ("SELECT COUNT(*), a + 1 FROM t GROUP BY a + 1", (1,)),
        ("SELECT COUNT(*), GROUPING_ID(a, b), b, a FROM t GROUP BY CUBE (a, b)", (3, 2, 1)),
        ("SELECT COUNT(*), b, a FROM t GROUP BY CUBE (a, b)", None),
        ("SELECT COUNT(*) FROM t", ()),
        ("SELECT COUNT(*) FROM t GROUP BY a", None),
        ("SELECT 1 UNION ALL SELECT 2", None),
    ],
)
def test_rows_are_told_apart_by_the_columns_that_group_them(
    sql: str, key: tuple[int, ...] | None
) -> None:
    """Where all of them are selected."""
    query = sqlglot.parse_one(sql, read="flink")
    unfold_grouping_sets(query)

    assert result_key(query) == key


def test_a_row_replaces_the_one_of_its_key() -> None:
    """The first is an insert, later ones say what they replace, as in Flink's client."""
    changes = UpsertChangelog(key=(0,))

    assert changes.of(("a", 1)) == [("+I", "a", 1)]
    assert changes.of(("b", 1)) == [("+I", "b", 1)]
    assert changes.of(("a", 2)) == [("-U", "a", 1), ("+U", "a", 2)]


def test_rows_without_their_key_are_updates() -> None:
    """What they replace is not known."""
    assert UpsertChangelog(key=None).of((3,)) == [("+U", 3)]
