"""`penstock catalog lineage`: of files, of a project, of the catalog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sql.cli.live_tables import commands, define

ROOT = Path(__file__).resolve().parents[4]

TABLES = """
CREATE TABLE orders (id BIGINT, amount BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{{ var("topic", "orders") }}', 'format' = 'json',
  'properties.bootstrap.servers' = 'h:1', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
CREATE TABLE sums (id BIGINT, total BIGINT) WITH ('connector' = 'blackhole');
"""
JOBS = "CREATE TEMPORARY VIEW doubled AS SELECT id, amount * 2 AS twice FROM orders;\nINSERT INTO sums SELECT id, twice FROM doubled;\n"


@pytest.fixture
def penstock(project):
    """Runs a command in an empty project."""
    return commands()


def test_files_are_read_in_the_order_given(penstock, project):
    """Temporary views are objects too."""
    (project / "tables.sql").write_text(TABLES)
    (project / "jobs.sql").write_text(JOBS)
    files = ("--files", "tables.sql", "--files", "jobs.sql")
    result = penstock("catalog", "lineage", "sums", "--upstream", *files)

    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "sums (blackhole)",
        "└─ made of",
        "   └─ doubled (view)  INSERT jobs.sql:2",
        "      │    id ← id",
        "      │    total ← twice",
        "      └─ orders (kafka)  VIEW",
        "              id ← id",
        "              twice ← amount  (orders.amount * 2)",
    ]


def test_a_projects_files_find_each_others_tables(penstock, project):
    """Whatever their names; one that is wrong is named and left out."""
    (project / "penstock.toml").write_text("")
    (project / "b").mkdir()
    (project / "b/tables.sql").write_text(TABLES)
    (project / "a_jobs.sql").write_text(JOBS)
    (project / "wrong.sql").write_text("INSERT INTO nowhere SELECT 1 AS x;")
    result = penstock("catalog", "lineage", "--format", "json")
    document = json.loads(result.stdout)

    assert [
        (e["from"].rpartition(".")[2], e["to"].rpartition(".")[2]) for e in document["edges"]
    ] == [
        ("orders", "doubled"),
        ("doubled", "sums"),
    ]
    assert "wrong.sql is left out: there is no table" in result.stderr


def test_the_catalog_alone_gives_its_views(penstock, project):
    """As Mermaid too."""
    define(
        project,
        TABLES.replace('{{ var("topic", "orders") }}', "o")
        + "CREATE VIEW v AS SELECT id FROM orders;",
    )
    tree = penstock("catalog", "lineage")
    chart = penstock("catalog", "lineage", "v", "--format", "mermaid")

    assert tree.stdout.splitlines() == [
        "orders (kafka)",
        "└─ v (view)  VIEW",
        "sums (blackhole): no flow",
    ]
    assert chart.stdout.splitlines()[-1] == "  n0 -->|VIEW| n1"


def test_a_targets_catalog_is_the_one_that_is_read(penstock, project):
    """As in `penstock run --target`."""
    define(project, "CREATE TABLE kept (id BIGINT) WITH ('connector' = 'blackhole');")
    (project / "penstock.toml").write_text('[targets.dev.catalog]\nurl = "sqlite:///dev.db"\n')

    assert "kept" in penstock("catalog", "lineage").stdout
    assert "kept" not in penstock("catalog", "lineage", "--target", "dev").stdout


def test_a_name_that_is_not_there_is_told_with_the_nearest(penstock, project):
    """Status 2."""
    (project / "tables.sql").write_text(TABLES)
    result = penstock("catalog", "lineage", "order", "--files", "tables.sql")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean 'orders'" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "--files examples/bi/star.sql --format mermaid",
        "revenue --files examples/quickstart.sql --format mermaid --columns",
        "revenue --upstream --files examples/quickstart.sql",
    ],
)
def test_the_pages_pictures_are_what_the_command_prints(monkeypatch, tmp_path, arguments):
    """docs/lineage.md names each command; what it prints stands there as it is."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs/lineage.md").read_text()
    words = f"catalog lineage {arguments}"
    result = commands()(*words.split(), "--catalog", f"sqlite:///{tmp_path}/catalog.db")

    assert result.exit_code == 0, result.stderr
    assert f"penstock {words}" in page
    assert "".join(result.stdout.split()) in "".join(page.split())
