"""Test files as people write them, and what is said of mistakes in them: the line, the column, the nearest word."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import ConfigError, InputErrors
from penstock.connector.changelog import RowKind
from penstock.sql.testing.cases import Case, chosen
from penstock.sql.testing.loader import find_files, load_files, read_test_file

HEAD = "files: p.sql\ncases:\n"


@pytest.fixture
def write(tmp_path: Path):
    """Writes a test file beside a SQL file and gives its path."""
    (tmp_path / "p.sql").write_text("SELECT 1")

    def to(text: str, name: str = "a_test.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return to


def only_case(path: Path) -> Case:
    """The one case of a file."""
    (case,) = read_test_file(path).cases
    return case


def test_a_case_takes_what_the_file_says_for_all_and_may_say_otherwise(write) -> None:
    """Mappings are laid over each other, the rest is replaced."""
    case = only_case(
        write(
            "files: [p.sql]\nvariables: {a: 1, b: 2}\nsettings: {x: true}\nends: true\ntarget: dev\n"
            "now: 2024-01-01 00:00:00\ncases:\n"
            "  - {name: n, variables: {b: 3}, ends: false, goes_idle: true, then: {}}\n"
        )
    )

    assert case.variables == {"a": 1, "b": 3}
    assert case.settings == {"x": "true"}
    assert (case.ends, case.goes_idle, case.target) == (False, True, "dev")
    assert case.now == "2024-01-01 00:00:00"


def test_a_row_has_columns_and_marks(write) -> None:
    """Dates, times and words such as `on` are texts; marks begin with a dollar."""
    case = only_case(
        write(
            HEAD + "  - name: n\n    given:\n      t:\n"
            "        - {a: 1, d: 2024-01-01, t: 12:30:00, w: on, $split: 2, $offset: 5, $kind: -D,\n"
            "           $timestamp: 2024-01-01, $key: k, $raw: {base64: AAE=}, $headers: {h: v}}\n"
            "    then: {}\n"
        )
    )
    row = case.steps[0][0].rows[0].row

    assert row.cells == {"a": 1, "d": "2024-01-01", "t": "12:30:00", "w": "on"}
    assert (row.split, row.offset, row.kind) == ("2", 5, RowKind.DELETE)
    assert (row.key, row.raw, row.headers) == (b"k", b"\x00\x01", (("h", b"v"),))


def test_rows_come_from_files_beside_the_test(write, tmp_path: Path) -> None:
    """CSV cells are texts, empty ones NULL; JSON lines have types. Marks are columns there."""
    write("a,$split,$kind\n1,3,\n,,-D\n", "r.csv")
    write('{"a": 1, "$offset": 4}\n\n{"a": null}\n', "r.jsonl")
    case = only_case(
        write(
            HEAD + "  - name: n\n    given: {t: {csv: r.csv}, u: {jsonl: r.jsonl}}\n    then: {}\n"
        )
    )
    t, u = ([placed.row for placed in table.rows] for table in case.steps[0])

    assert [(r.cells, r.split, r.kind.short, r.from_csv) for r in t] == [
        ({"a": "1"}, "3", "+I", True),
        ({"a": ""}, None, "-D", True),
    ]
    assert [(r.cells, r.offset) for r in u] == [({"a": 1}, 4), ({"a": None}, None)]
    assert case.steps[0][1].rows[1].span.line == 3


def test_what_is_expected_has_rows_changes_and_counts(write) -> None:
    """A table is a list, or a mapping that says more."""
    case = only_case(
        write(
            HEAD + "  - name: n\n    then:\n      t: [{a: 1}]\n      u: {rows: [], ordered: true}\n"
            "      v: {changes: [{$kind: +I, a: 1}]}\n      $late: 1\n      $bad_records: 2\n"
            "      $watermark: null\n      $dead_letters: [{$split: 1}]\n"
        )
    )
    then = case.then
    assert then is not None
    t, u, v = then.tables

    assert [(x.name, x.changes, x.ordered) for x in (t, u, v)] == [
        ("t", False, False),
        ("u", False, True),
        ("v", True, False),
    ]
    assert (then.late, then.bad_records, then.watermark) == (1, 2, "none")
    assert v.rows[0].kind == "+I"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("PEN-3001", "PEN-3001", None),
        ("no such column", None, "no such column"),
        ("{code: PEN-1, message: x}", "PEN-1", "x"),
    ],
)
def test_an_expected_error_is_a_code_a_text_or_both(
    write, text: str, code: str | None, message: str | None
) -> None:
    """A text that begins with PEN- is a code."""
    error = only_case(write(HEAD + f"  - name: n\n    error: {text}\n")).error

    assert error is not None
    assert (error.code, error.message) == (code, message)


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "hint"),
    [
        ("files: p.sql\ncasess: []\n", 2, 1, "no key `casess`", "did you mean 'cases'?"),
        (HEAD + "  - nam: x\n", 3, 5, "no key `nam`", "did you mean 'name'?"),
        (HEAD + "  - name: x\n    then:\n      $lat: 1\n", 5, 7, "no key `$lat`", "$late"),
        (HEAD + "  - name: x\n    then: {t: [{a: 1, a: 2}]}\n", 4, 23, "`a` twice", None),
        (HEAD + "  - name: x\n    given: {t: [{$splt: 1}]}\n", 4, 18, "no mark", "'$split'"),
        (HEAD + "  - name: x\n    given: {t: [{$kind: X}]}\n", 4, 17, "no kind of row", "+I"),
        (HEAD + "  - name: x\n    given: {t: {csv: no.csv}}\n", 4, 22, "no file", "relative"),
        (HEAD + "  - name: x\n    then: {$late: two}\n", 4, 19, "must be a number", None),
        (HEAD + "  - name: x\n    then: {t: {changes: [{a: 1}]}}\n", 4, 26, "$kind", "+I"),
        (HEAD + "  - name: x\n    ends: 1\n", 4, 11, "must be true or false", None),
        (HEAD + "  - name: x\n    then: {}\n    error: x\n", 5, 12, "not both", None),
        (HEAD + "  - name: x\n  - name: x\n", 4, 11, "two cases", None),
        (HEAD + "  - {}\n", 3, 5, "needs a `name`", None),
        ("files: q.sql\ncases:\n  - name: x\n", 1, 8, "there is no file", "relative"),
        ("cases:\n  - name: x\n", 2, 5, "which SQL", "files"),
        ("files: [p.sql\n", 2, 1, "not YAML", None),
    ],
)
def test_a_mistake_is_told_with_its_place(
    write, text: str, line: int, column: int, message: str, hint: str | None
) -> None:
    """Line and column count from 1."""
    with pytest.raises(ConfigError) as raised:
        read_test_file(write(text))
    span = raised.value.span

    assert message in raised.value.message
    assert span is not None
    assert (span.line, span.column) == (line, column)
    assert hint is None or hint in (raised.value.hint or "")


def test_a_mistake_in_a_data_file_is_told_there(write) -> None:
    """With the line of that file."""
    write("a,b\n1,2\n3\n", "r.csv")
    with pytest.raises(ConfigError, match="as many cells") as raised:
        read_test_file(write(HEAD + "  - name: n\n    given: {t: {csv: r.csv}}\n"))

    assert raised.value.span is not None
    assert (Path(raised.value.span.file).name, raised.value.span.line) == ("r.csv", 3)


def test_files_are_found_by_their_names(write, tmp_path: Path) -> None:
    """In folders below too, hidden ones left out; a file that is named is taken whatever its name."""
    good = [write("", name) for name in ("a_test.yaml", "sub/test_b.yml")]
    other = write("", "cases.yaml")
    write("", ".hidden/c_test.yaml")
    write("", "sub/notes.yaml")

    assert find_files([tmp_path]) == tuple(good)
    assert find_files([other, other]) == (other,)
    with pytest.raises(ConfigError, match="no file or folder"):
        find_files([tmp_path / "gone"])


def test_all_files_are_read_before_anything_is_said(write) -> None:
    """Two mistakes in two files are told together."""
    with pytest.raises(InputErrors) as raised:
        load_files([write("x: 1", "a_test.yaml"), write("y: 1", "b_test.yaml")])

    assert len(raised.value.errors) == 2


def test_cases_are_chosen_by_words(write) -> None:
    """All words have to be in the file's name or the case's."""
    path = write(HEAD + "  - {name: late rows, then: {}}\n  - {name: others, then: {}}\n")
    files = load_files([path])

    assert [case.name for _, case in chosen(files, "rows LATE")] == ["late rows"]
    assert len(chosen(files, "a_test")) == len(chosen(files, None)) == 2
