"""What a cell draws: values exact and escaped, cuts told, charts within their frame."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from html.parser import HTMLParser

import pytest

from penstock.sql.jobs.observation import ObservedJob
from penstock.sql.jobs.progress import JobProgress
from penstock.sql.notebook.screen import HEIGHT, WIDTH, as_html, as_text, sparkline, status_line
from penstock.sql.notebook.views import (
    LONGEST,
    Head,
    JobsView,
    LiveView,
    Note,
    ProgressSample,
    TableView,
    View,
    cell_text,
)
from penstock.sql.observation.pipeline import JobStatus

ATTACK = "</td><script>alert(1)</script>"
JOB = JobProgress(
    name=f"cell/{ATTACK}",
    sink="t",
    status=JobStatus.RUNNING,
    activity="",
    started_ms=0,
    seconds=3.0,
    batches=2,
    rows_in=1200,
    rows_out=1100,
    rows_per_second=400.0,
    watermark_ms=60_000,
    lag_records=7,
)


def table(*rows: tuple[object, ...], more: bool = False) -> TableView:
    """A table of a text and a number."""
    heads = (Head(name="who", type="STRING"), Head(name="n", type="BIGINT", numeric=True))
    return TableView(heads=heads, rows=rows, more=more, limit=20)


def live(ended: str | None = None) -> LiveView:
    """A followed query of changes."""
    heads = (Head(name="op"), Head(name="n", type="BIGINT", numeric=True))
    samples = (
        ProgressSample(rows_per_second=0.0, lag_ms=None),
        ProgressSample(rows_per_second=90.0, lag_ms=1500),
    )
    return LiveView(
        table=TableView(heads=heads, rows=[("-U", 1), ("+U", 2), ("-D", 2)], more=True),
        rows_seen=40,
        rows_in=4000,
        batches=3,
        seconds=12.0,
        watermark_ms=1_714_557_600_000,
        samples=samples,
        ended=ended,
    )


class Balance(HTMLParser):
    """Reads HTML and keeps what is open, and which tags there were."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.tags.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(html: str) -> Balance:
    """HTML that is closed as it was opened."""
    parser = Balance()
    parser.feed(html)
    assert parser.open == []
    return parser


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (Decimal("1E-7"), "0.0000001"),
        (12345678901234567, "12345678901234567"),
        (datetime(2024, 5, 1, 10, 0, 0, 5000), "2024-05-01 10:00:00.005"),
        (datetime(2024, 5, 1, 10, 0, 0, 5), "2024-05-01 10:00:00.000005"),
        (b"\x00\xff", "0x00ff"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ("two\nlines\x1b[31m", r"two\nlines\x1b[31m"),
    ],
)
def test_a_value_is_written_exactly_and_on_one_line(value: object, text: str) -> None:
    """No rounding, no thousands in numbers, no control characters."""
    assert cell_text(value) == text


def test_a_long_value_says_how_long_it_was() -> None:
    """What is cut is not taken for the whole."""
    assert cell_text("x" * 5000) == f"{'x' * LONGEST}… (5,000 characters)"


@pytest.mark.parametrize(
    "view",
    [
        table((ATTACK, 1), (None, None)),
        live(),
        JobsView(jobs=(ObservedJob(progress=JOB),), now_ms=65_000, errors=(ATTACK,)),
        Note(text=ATTACK, is_error=True),
        TableView(heads=(Head(name=ATTACK, type=ATTACK),), rows=[]),
    ],
    ids=lambda view: type(view).__name__,
)
def test_nothing_of_a_table_becomes_html(view: View) -> None:
    """Values, names, types and errors are escaped, and every tag is closed."""
    html = as_html(view)

    assert "script" not in parsed(html).tags
    assert "<script" not in html


def test_a_table_shows_types_nulls_and_that_there_is_more() -> None:
    """Numbers stand at the right; NULL is not the text NULL."""
    html = as_html(table(("NULL", 1), (None, 22), more=True))

    assert "<th>who<small>STRING</small></th>" in html
    assert '<td>NULL</td><td class="n">1</td>' in html
    assert '<td><span class="null">NULL</span></td><td class="n">22</td>' in html
    assert "first 2 rows; there are more (--limit shows more)" in html


def test_of_a_followed_query_the_newest_rows_are_shown() -> None:
    """What is left out came before."""
    view = replace(table(("a", 1), ("b", 2), more=True), newest=True, limit=None)

    assert "newest 2 rows; there were more" in as_html(view)


def test_changes_are_told_apart_by_their_kind() -> None:
    """The row as it was, as it is, and one that is gone."""
    html = as_html(live())

    assert re.findall(r'<tr class="(\w+)"><td class="op">([^<]+)', html) == [
        ("old", "-U"),
        ("new", "+U"),
        ("gone", "-D"),
    ]
    assert html.count("<svg") == 2


def test_a_chart_stays_in_its_frame_and_leaves_gaps() -> None:
    """The highest value touches the top; unknown values are neither zero nor joined over."""
    svg = sparkline("lag", [1.0, 4.0, None, 2.0, 3.0], lambda v: f"{v:g} s", color="#123456")
    lines = re.findall(r'polyline points="([^"]+)"', svg)
    points = [tuple(map(float, pair.split(","))) for line in lines for pair in line.split()]

    assert len(lines) == 2
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert min(y for _, y in points) == points[1][1]
    assert "lag: 3 s, at most 4 s" in svg
    assert "nothing yet" in sparkline("lag", [], str, color="#123456")


def test_a_terminal_gets_aligned_text() -> None:
    """Numbers at the right there, too."""
    assert as_text(table(("a", 1), ("long name", 100))).splitlines() == [
        "who          n",
        "a            1",
        "long name  100",
        "(2 rows)",
    ]
    assert as_text(live(ended="interrupted")).splitlines()[-1].startswith("interrupted · 40 rows")


def test_running_jobs_say_what_they_do() -> None:
    """Under their figures, as text and as HTML; one that has ended does not."""
    running = ObservedJob(progress=replace(JOB, batch_id=4))
    ended = ObservedJob(progress=replace(JOB, sink="u", status=JobStatus.STOPPED))
    view = JobsView(jobs=(running, ended), now_ms=65_000)

    assert as_text(view).splitlines()[-1] == "t: runs: batch 4 is the last one"
    assert '<div class="note">t: runs: batch 4 is the last one</div>' in as_html(view)
    assert "u: " not in as_text(view)


def test_a_followed_query_without_rows_says_why() -> None:
    """Under its figures."""
    view = replace(live(), sentence=f"table {ATTACK} had no record")

    assert as_text(view).splitlines()[-1] == f"table {ATTACK} had no record"
    assert "had no record</div>" in as_html(view)
    assert "<script" not in as_html(view)


def test_a_followed_query_says_what_it_left_out() -> None:
    """Where it left out nothing, it says nothing."""
    lossy = replace(live(), rows_dropped=1200, bad_records=3)

    assert "in 3 batches · watermark" in status_line(live())
    assert "in 3 batches · 1,200 dropped as late · 3 bad records left out · " in status_line(lossy)


def test_text_stands_at_the_left_wherever_the_page_puts_it() -> None:
    """Notebook pages style `.their-class td`; the cell's own rules are more specific."""
    style = as_html(table(("a", 1))).split("</style>")[0]
    left = next(line for line in style.splitlines() if "text-align:left" in line)

    assert left.startswith(".penstock .box table th,.penstock .box table td{")


def test_a_followed_query_says_that_it_starts_and_of_how_many_batches_its_rows_are() -> None:
    """Rows of the batch in flight are seen before they count as read."""
    assert "starting; interrupt" in as_html(replace(live(), starting=True))
    assert "40 rows · 4,000 read in 3 batches" in as_html(live())
