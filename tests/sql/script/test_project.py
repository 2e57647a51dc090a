"""The project file: where it is found, what it may say, how its mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import ConfigError
from penstock.sql.script.project import find_project

FULL = """
[catalog]
url = "postgresql://host/penstock"

[spark]
master = "spark://host:7077"
conf = { "spark.driver.memory" = "4g", spark.sql.shuffle.partitions = 4, "spark.ui.enabled" = true }

[settings]
"pipeline.name" = "orders"
table.local-time-zone = "Europe/Berlin"

[variables]
topic = "orders"
batch = 1000
"""


def project_with(folder, text):
    """The project of a folder whose project file has this text."""
    (folder / "penstock.toml").write_text(text, encoding="utf-8")
    return find_project(folder)


def test_every_section_is_read(tmp_path):
    """Dotted keys may be quoted or not; values of settings become text, those of variables stay."""
    project = project_with(tmp_path, FULL)

    assert project.root == tmp_path
    assert project.default_catalog_url == "postgresql://host/penstock"
    assert project.master == "spark://host:7077"
    assert project.spark_conf == {
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "true",
    }
    assert project.settings == {"pipeline.name": "orders", "table.local-time-zone": "Europe/Berlin"}
    assert project.variables == {"topic": "orders", "batch": 1000}


def test_it_is_found_from_below(tmp_path):
    """The nearest file above the working directory makes the project."""
    project_with(tmp_path, "[catalog]\n")
    below = tmp_path / "jobs" / "daily"
    below.mkdir(parents=True)

    assert find_project(below).root == tmp_path


def test_without_a_file_the_folder_is_the_project(tmp_path):
    """The catalog is then kept in the folder itself."""
    project = find_project(tmp_path)

    assert (project.root, project.file) == (tmp_path, None)
    assert project.default_catalog_url == f"sqlite:///{tmp_path.as_posix()}/.penstock/catalog.db"


def test_a_relative_catalog_file_belongs_to_the_project(tmp_path):
    """Wherever in the project the command is typed, it is the same file."""
    project = project_with(tmp_path, '[catalog]\nurl = "sqlite:///tables.db"\n')

    assert project.default_catalog_url == f"sqlite:///{tmp_path.as_posix()}/tables.db"


@pytest.mark.parametrize(
    ("text", "message", "hint", "place"),
    [
        ("[catalogue]\n", "unknown section `catalogue`", "did you mean 'catalog'?", (1, 2, 9)),
        (
            "# url\n[catalog]\nurll = 'x'\n",
            "unknown key `urll` in [catalog]",
            "did you mean 'url'?",
            (3, 1, 4),
        ),
        (
            "[spark]\nzebra = 1\n",
            "unknown key `zebra` in [spark]",
            "known are: conf, master",
            (2, 1, 5),
        ),
        ("[spark]\nmaster = 4\n", "`master` in [spark] must be a string, not 4", None, (2, 1, 6)),
        ("spark = 4\n", "`spark` must be a section, [spark]", None, (1, 1, 5)),
        (
            "[spark.conf]\nx = [1]\n",
            "`x` in [spark.conf] must be a string, a number or a boolean",
            None,
            (2, 1, 1),
        ),
    ],
)
def test_mistakes_are_shown_where_they_stand(tmp_path, text, message, hint, place):
    """Unknown keys come with the nearest known one; nothing is silently ignored."""
    with pytest.raises(ConfigError) as raised:
        project_with(tmp_path, text)

    error = raised.value
    assert (error.message, error.hint) == (message, hint)
    assert (error.span.line, error.span.column, error.span.length) == place


def test_text_that_is_not_toml_is_told_with_its_line(tmp_path):
    """The parser's own words, and a caret at the place."""
    with pytest.raises(ConfigError, match="not valid TOML") as raised:
        project_with(tmp_path, "# x\n[catalog\n")

    assert (raised.value.span.line, raised.value.span.line_text) == (2, "[catalog")


TARGETS = """
target = "dev"

[paths]
macros = "sql/macros"
data = "state"

[settings]
"pipeline.name" = "orders"

[variables]
topic = "orders"
batch = 10

[targets.dev.variables]
topic = "orders-dev"

[targets.prod]
catalog.url = "postgresql://host/penstock"
spark = { master = "spark://host:7077", conf = { "spark.driver.memory" = "4g" } }
[targets.prod.variables]
batch = 1000
"""


def test_a_target_lies_over_the_project(tmp_path, monkeypatch):
    """Key by key: what a target does not say is the project's."""
    project = project_with(tmp_path, TARGETS)
    prod = find_project(tmp_path, target="prod")

    assert (project.target, project.variables) == ("dev", {"topic": "orders-dev", "batch": 10})
    assert project.data_directory == tmp_path / "state"
    assert project.folders.macro_folder == tmp_path / "sql/macros"
    assert prod.default_catalog_url == "postgresql://host/penstock"
    assert prod.variables == {"topic": "orders", "batch": 1000}
    assert prod.settings == {"pipeline.name": "orders", "penstock.target": "prod"}
    assert project.settings == {"pipeline.name": "orders", "penstock.target": ""}
    assert (prod.master, prod.spark_conf) == ("spark://host:7077", {"spark.driver.memory": "4g"})


def test_the_environment_chooses_a_target_where_the_command_line_does_not(tmp_path, monkeypatch):
    """In .env too, where the environment of the process wins."""
    (tmp_path / ".env").write_text("PENSTOCK_TARGET=prod\n")
    monkeypatch.delenv("PENSTOCK_TARGET", raising=False)

    assert project_with(tmp_path, TARGETS).target == "prod"

    monkeypatch.setenv("PENSTOCK_TARGET", "dev")

    assert find_project(tmp_path).target == "dev"
    assert find_project(tmp_path, target="prod").target == "prod"


@pytest.mark.parametrize(
    ("text", "target", "message", "hint"),
    [
        (TARGETS, "prd", "has no target 'prd'", "did you mean 'prod'?"),
        ("[variables]\n", "prod", "has no target 'prod'", "add a section [targets.prod]"),
        ("target = 'x'\n[targets.dev]\n", None, "there is no target 'x'", "there are: dev"),
        (
            "[targets.dev]\nsetings = 1\n",
            None,
            "unknown key `setings` in [targets.dev]",
            "settings",
        ),
        ("[targets.dev.spark]\nmastr = 'x'\n", None, "unknown key `mastr`", "master"),
        ("[targets]\ndev = 1\n", None, "`targets.dev` must be a section", None),
    ],
)
def test_mistakes_in_targets_are_told(tmp_path, monkeypatch, text, target, message, hint):
    """Of all targets, not only of the chosen one."""
    monkeypatch.delenv("PENSTOCK_TARGET", raising=False)
    (tmp_path / "penstock.toml").write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError) as raised:
        find_project(tmp_path, target=target)

    assert message in raised.value.message
    assert hint is None or hint in raised.value.hint


def test_a_mistake_is_shown_in_its_own_section(tmp_path):
    """The same word may stand in another one."""
    text = "[variables]\nmastr = 1\n[targets.dev.spark]\nmastr = 'x'\n"

    with pytest.raises(ConfigError) as raised:
        project_with(tmp_path, text)

    assert raised.value.span.line == 4


def test_a_mistake_in_the_file_itself_is_not_shown_in_a_section(tmp_path):
    """Nor at the last of several places."""
    text = "[targets.dev.vars]\na = 1\n[vars]\na = 1\n[variables]\nvars = 'x'\n"

    with pytest.raises(ConfigError) as raised:
        project_with(tmp_path, text)

    assert raised.value.span.line == 3


def test_a_target_needs_a_project_file(tmp_path):
    """Else a slip in the folder would run against the wrong system."""
    with pytest.raises(ConfigError, match="no target 'prod'"):
        find_project(tmp_path, target="prod")


def test_the_project_file_of_the_documentation_is_right(tmp_path, monkeypatch):
    """It is read as a user would paste it."""
    monkeypatch.delenv("PENSTOCK_TARGET", raising=False)
    page = Path(__file__).resolve().parents[3] / "docs" / "sql-files.md"
    text = page.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]

    project = project_with(tmp_path, text)

    assert (project.target, project.variables["topic"]) == ("dev", "orders-dev")
    assert find_project(tmp_path, target="prod").master == "spark://host:7077"


def test_the_rules_of_references_bind_templates_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders are relative to the project; variables without the prefix are not there for `env_var`."""
    (tmp_path / "penstock.toml").write_text(
        '[secrets]\nfile-roots = ["keys", "/run/secrets"]\nenv-prefix = "APP_"\n'
    )
    monkeypatch.setenv("APP_TOPIC", "orders")
    monkeypatch.setenv("CI_TOKEN", "hunter2")
    project = find_project(tmp_path)

    assert project.reference_rules.file_roots == (tmp_path / "keys", Path("/run/secrets"))
    assert project.environment["APP_TOPIC"] == "orders"
    assert "CI_TOKEN" not in project.environment

    (tmp_path / "penstock.toml").write_text("[secrets]\nfile-roots = 'keys'\n")
    with pytest.raises(ConfigError, match="must be a list of strings"):
        find_project(tmp_path)


def test_each_target_has_a_catalog_of_its_own(tmp_path, monkeypatch):
    """The project's is that of the default target; names are told apart on every file system, and stay in the folder."""
    monkeypatch.delenv("PENSTOCK_TARGET", raising=False)
    names = ["dev", "prod", "Prod", "../up"]
    project_with(tmp_path, "target = 'dev'\n" + "".join(f"[targets.'{n}']\n" for n in names))
    found = [find_project(tmp_path, target=name).own_catalog for name in names]

    assert [one.relative_to(tmp_path).as_posix() for one in found] == [
        ".penstock/catalog.db",
        ".penstock/catalog-prod.db",
        ".penstock/catalog-%50rod.db",
        ".penstock/catalog-%2e%2e%2fup.db",
    ]
    assert find_project(tmp_path).own_catalog == found[0]


@pytest.mark.parametrize("target", [None, "dev"])
def test_a_project_without_a_default_target_keeps_its_catalog_for_dev(
    tmp_path, monkeypatch, target
):
    """What was defined before targets had catalogs stays where it is found."""
    monkeypatch.delenv("PENSTOCK_TARGET", raising=False)
    project_with(tmp_path, "[targets.dev]\n[targets.prod]\n")

    assert find_project(tmp_path, target=target).own_catalog == tmp_path / ".penstock/catalog.db"


def test_a_url_of_the_catalog_is_that_of_all_targets(tmp_path, monkeypatch):
    """They share it, and know it; a target's own url is its own."""
    monkeypatch.delenv("PENSTOCK_TARGET", raising=False)
    text = "[catalog]\nurl = 'sqlite:///c.db'\n[targets.dev]\n[targets.prod]\n[targets.test.catalog]\nurl = 'sqlite:///t.db'\n"
    project_with(tmp_path, text)
    prod, test = (find_project(tmp_path, target=name) for name in ("prod", "test"))

    assert (prod.default_catalog_url, prod.sharing) == (f"sqlite:///{tmp_path}/c.db", ("dev",))
    assert (test.default_catalog_url, test.sharing) == (f"sqlite:///{tmp_path}/t.db", ())
    assert (prod.lease_url, test.lease_url) == (None, None)


@pytest.mark.parametrize(
    ("target", "settings", "known"),
    [
        (None, "", ""),
        ("dev", "", ""),
        ("prod", "", "prod"),
        ("prod", "'pipeline.name' = 'p'", None),
        ("prod", "'execution.checkpointing.dir' = 'c'", None),
    ],
)
def test_a_target_that_shares_the_folder_of_checkpoints_is_known_by_its_name(
    tmp_path, monkeypatch, target, settings, known
):
    """The default one by none; one that has a folder or pipelines of its own need not be told apart."""
    monkeypatch.delenv("PENSTOCK_TARGET", raising=False)
    project_with(tmp_path, f"[targets.dev]\n[targets.prod]\n[targets.prod.settings]\n{settings}\n")

    assert find_project(tmp_path, target=target).settings.get("penstock.target") == known
