"""The forms of an INSERT's query: the others are analysed when a checkpoint asks for them, by the same definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.sql.dialect import to_text
from penstock.sql.plan import insert_forms
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.plan.query_location import as_checkpointed, insert_fingerprint
from penstock.sql.plan.syntax_rules import PlanForm
from penstock.sql.script.files import ScriptFile
from tests.sql.checkpointed import TABLES, Job

KEYED = (
    "CREATE TABLE k (a BIGINT, b STRING, PRIMARY KEY (b) NOT ENFORCED) "
    "WITH ('connector' = 'delta', 'path' = 'k');\n"
)
VIEW = "CREATE VIEW rows_of AS SELECT a, b FROM src WHERE a > 1;\n"
FIRST = (
    "INSERT INTO k SELECT a, b FROM "
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS n FROM rows_of) WHERE n = 1;\n"
)
OTHER_VIEW = "DROP VIEW rows_of;\nCREATE VIEW rows_of AS SELECT a, b FROM src WHERE a > 2;\n"


def analysed(folder: Path, sql: str) -> AnalysedInsert:
    """Check a file with one INSERT."""
    file = ScriptFile(name="x.sql", text=TABLES + KEYED + sql)
    (script,) = Job(project=folder, settings={}).scripts(file)
    (insert,) = (insert for one in script.statements for insert in one.inserts)
    return insert


def test_other_forms_are_analysed_where_a_checkpoint_has_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new query, and one that resumes in its present form, are analysed once."""
    forms, analyse = list[PlanForm](), insert_forms.analyse_or_refuse

    def counted(*given: object, form: PlanForm, **named: object) -> object:
        forms.append(form)
        return analyse(*given, form=form, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(insert_forms, "analyse_or_refuse", counted)
    insert = analysed(tmp_path, VIEW + FIRST)
    for known in (None, insert_fingerprint(insert)):
        assert as_checkpointed(insert, known) is insert
    assert forms == [PlanForm.CURRENT]

    before = insert.earlier
    assert insert.earlier is before
    assert forms == [PlanForm.CURRENT, PlanForm.PANES, PlanForm.TIES_OPEN]


def test_other_forms_have_the_definitions_of_their_statement(tmp_path: Path) -> None:
    """Statements further down may give its names another meaning before they are asked for."""
    (as_written, _) = analysed(tmp_path, VIEW + FIRST).earlier
    (redefined, _) = analysed(tmp_path, VIEW + FIRST + OTHER_VIEW).earlier

    assert redefined.query == as_written.query
    assert "> 1" in to_text(redefined.query)


def test_a_projection_has_no_other_form(tmp_path: Path) -> None:
    """Nothing of a checkpoint of an earlier version would fit it better."""
    appended = "CREATE TABLE l (a BIGINT, b STRING) WITH ('connector' = 'delta', 'path' = 'l');\n"

    insert = analysed(tmp_path, f"{appended}INSERT INTO l SELECT a, b FROM src")

    assert insert.earlier_forms is None
    assert insert.earlier == ()
