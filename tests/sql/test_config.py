"""The project file: where it is found, what it may say, how its mistakes are told."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import ConfigError
from penstock.sql.config import find_project

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
    """The parser's own words name the place."""
    with pytest.raises(ConfigError, match=r"not valid TOML.*line 1"):
        project_with(tmp_path, "[catalog\n")
