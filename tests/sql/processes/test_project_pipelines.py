"""Which files of a project are pipelines, and what is refused."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.catalog.definitions.leases import this_process
from penstock.catalog.errors import ConfigError, InputError, InputErrors
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.execution.context import SessionContext, open_names
from penstock.sql.processes.project_pipelines import (
    ProjectPipelines,
    define_shared,
    find_pipelines,
    refuse_running,
)
from penstock.sql.script.project import find_project
from penstock.sql.settings import FixedDelay, NoRestart

SOURCE = "CREATE TABLE orders (id BIGINT) WITH ('connector' = 'datagen');"


def hole(name: str) -> str:
    """A table that keeps nothing."""
    return f"CREATE TABLE {name} (id BIGINT) WITH ('connector' = 'blackhole');"


def copy(into: str) -> str:
    """A pipeline."""
    return f"INSERT INTO {into} SELECT id FROM orders;"


def context_of(root: Path) -> SessionContext:
    """The catalog of the project, and its settings."""
    project = find_project(root)
    store = SqlCatalog(f"sqlite:///{root}/catalog.db")
    return SessionContext(
        namespace=open_names(store, root), project=root, settings=dict(project.settings)
    )


def found(root: Path, context: SessionContext | None = None, **files: str) -> ProjectPipelines:
    """Write files and find the pipelines; `__` in a name is a folder."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return find_pipelines(find_project(root), context or context_of(root), {})


def messages(error: InputError) -> list[str]:
    """The messages of one or several."""
    return [each.message for each in (error.errors if isinstance(error, InputErrors) else [error])]


def test_files_that_run_on_are_pipelines_and_the_others_are_told(tmp_path: Path) -> None:
    """Definitions alone are needed by others, a report is left out."""
    result = found(
        tmp_path,
        tables=SOURCE,
        sql__copy=hole("h") + copy("h"),
        sql__report="SHOW TABLES;",
    )

    assert [file.name for file in result.files] == ["sql/copy.sql"]
    assert result.files[0].pipelines == ("copy/h",)
    assert result.left_out == ("sql/report.sql",)


@pytest.mark.parametrize(
    ("kind", "text", "pipelines"),
    [
        ("a statement set", hole("h") + hole("g") + "EXECUTE STATEMENT SET BEGIN "
         + copy("h") + copy("g") + "END;", 1),
        ("CREATE TABLE AS", "CREATE TABLE h WITH ('connector' = 'blackhole') AS SELECT id FROM orders;", 1),
        ("two INSERTs", hole("h") + hole("g") + copy("h") + copy("g"), 2),
    ],
)  # fmt: skip
def test_each_kind_of_pipeline_is_found(
    tmp_path: Path, kind: str, text: str, pipelines: int
) -> None:
    """By its statement."""
    (file,) = found(tmp_path, a=SOURCE + text).files

    assert len(file.pipelines) == pipelines, kind


def test_the_order_of_names_does_not_matter(tmp_path: Path) -> None:
    """A file uses the tables of one behind it; all are in the catalog before one is started."""
    context = context_of(tmp_path)
    result = found(tmp_path, context, a=hole("h") + copy("h"), z=SOURCE + hole("g") + copy("g"))
    before = len(context.namespace.tables())
    define_shared(result, context.namespace)
    define_shared(result, context.namespace)

    assert before == 0
    assert {each.name for each in context.namespace.tables()} == {"orders", "h", "g"}


def test_a_file_that_reads_what_another_creates_by_a_query_waits_for_it(tmp_path: Path) -> None:
    """The table is there once that file's process runs."""
    filled = (
        "CREATE TABLE kept WITH ('connector' = 'delta', 'path' = 'kept') AS SELECT id FROM orders;"
    )
    context = context_of(tmp_path)
    result = found(
        tmp_path,
        context,
        a=hole("h") + "INSERT INTO h SELECT id FROM kept;",
        b=SOURCE + filled,
        c=hole("g") + copy("g"),
    )
    define_shared(result, context.namespace)

    assert {file.name: file.after for file in result.files} == {
        "a.sql": ("b.sql",),
        "b.sql": (),
        "c.sql": (),
    }
    assert "kept" not in {each.name for each in context.namespace.tables()}


def test_temporary_tables_stay_in_their_files(tmp_path: Path) -> None:
    """Two files may have one of the same name, and a third has none."""
    temporary = SOURCE.replace("CREATE TABLE", "CREATE TEMPORARY TABLE")
    two = {name: temporary + hole(f"{name}_out") + copy(f"{name}_out") for name in ("a", "b")}

    assert len(found(tmp_path, None, **two).files) == 2
    with pytest.raises(InputErrors, match="orders"):
        found(tmp_path, c=hole("c_out") + copy("c_out"))


def test_each_file_has_its_own_settings(tmp_path: Path) -> None:
    """A strategy that one file sets is not the next one's; the project's is everybody's."""
    (tmp_path / "penstock.toml").write_text(
        "[settings]\n'restart-strategy.type' = 'none'\n", encoding="utf-8"
    )
    fixed = """SET 'restart-strategy.type' = 'fixed-delay'; SET 'restart-strategy.fixed-delay.attempts' = '3';
    SET 'restart-strategy.fixed-delay.delay' = '2 s'; SET 'pipeline.name' = 'first';"""
    first, second = found(
        tmp_path, a=SOURCE + hole("h") + fixed + copy("h"), b=hole("g") + copy("g")
    ).files

    assert first.restarts == FixedDelay(attempts=3, delay_ms=2_000)
    assert first.pipelines == ("first/h",)
    assert second.restarts == NoRestart()
    assert second.pipelines == ("b/g",)


def test_two_files_that_write_one_table_are_refused(tmp_path: Path) -> None:
    """With the place of each INSERT; two INSERTs of one file may."""
    with pytest.raises(InputErrors) as caught:
        found(tmp_path, a=SOURCE + hole("h") + copy("h"), b=copy("h"))

    texts = messages(caught.value)
    assert [text.partition(" ")[0] for text in texts] == ["a.sql", "b.sql"]
    assert all("writes table" in text for text in texts)
    assert [each.span.file for each in caught.value.errors if each.span] == ["a.sql", "b.sql"]


def test_two_pipelines_of_one_name_are_refused(tmp_path: Path) -> None:
    """Two INSERTs into tables of one name in two databases: each process would take the first free name."""
    name = "SET 'pipeline.name' = 'one';"
    with pytest.raises(ConfigError, match=r"a\.sql and b\.sql both have a pipeline 'one/h'"):
        found(
            tmp_path,
            a=name + SOURCE + hole("h") + copy("h"),
            b=name
            + "CREATE DATABASE IF NOT EXISTS d;"
            + hole("d.h")
            + "INSERT INTO d.h SELECT id FROM orders;",
        )


def test_a_change_that_a_restart_would_repeat_is_refused(tmp_path: Path) -> None:
    """INSERT .. VALUES beside a pipeline: the rows would come again."""
    table = "CREATE TABLE kept (id BIGINT) WITH ('connector' = 'delta', 'path' = 'kept');"
    with pytest.raises(ConfigError, match=r"a\.sql has a pipeline and a statement that changes"):
        found(
            tmp_path,
            a=SOURCE + hole("h") + table + "INSERT INTO kept VALUES (1);" + copy("h"),
        )


def test_a_project_without_a_pipeline_is_refused(tmp_path: Path) -> None:
    """It says what one is."""
    with pytest.raises(ConfigError, match="has a pipeline") as caught:
        found(tmp_path, a=SOURCE)

    assert caught.value.hint is not None
    assert "INSERT" in caught.value.hint


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    """The faults of each file, with their files."""
    with pytest.raises(InputErrors) as caught:
        found(tmp_path, a=SOURCE + hole("h") + copy("h"), b=copy("nowhere"), c="SELEC 1;")

    assert [each.span.file for each in caught.value.errors if each.span] == ["b.sql", "c.sql"]


def test_pipelines_that_are_run_already_are_refused_in_words(tmp_path: Path) -> None:
    """With the process that has them; others are not in the way."""
    context = context_of(tmp_path)
    result = found(tmp_path, context, a=SOURCE + hole("h") + copy("h"))
    context.leases.acquire("else/h", this_process())
    refuse_running(result, context)
    context.leases.acquire("a/h", this_process())

    with pytest.raises(InputErrors, match=r"pipeline 'a/h' already runs"):
        refuse_running(result, context)


def test_a_claim_from_before_the_clock_was_set_back_is_left_to_its_process(tmp_path: Path) -> None:
    """Which watches it, and takes it over: the project would not start for as long as the clock was ahead."""
    context = context_of(tmp_path)
    result = found(tmp_path, context, a=SOURCE + hole("h") + copy("h"))
    context.leases.acquire("a/h", replace(this_process(), host="another", pid=4711))
    with pytest.raises(InputErrors, match="by process 4711 on host another"):
        refuse_running(result, context)
    with sqlite3.connect(tmp_path / "catalog.db") as store:
        store.execute("UPDATE penstock_leases SET heartbeat_ms = heartbeat_ms + 3600000")
    store.close()

    refuse_running(result, context)
