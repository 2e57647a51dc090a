"""Files of other accounts: they configure nothing, whatever folder they lie in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.catalog.errors import ConfigError, TemplateError
from penstock.sql.script.files import SAFE_FOLDERS_VARIABLE, read_dotenv
from penstock.sql.script.project import Project, find_project, load_dotenv
from penstock.sql.script.templates import render_template

OTHER = 12345
"""An account of the machine that is nobody here."""

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root can make files that belong to others",
)


@pytest.fixture(autouse=True)
def nothing_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment trusts no folder, and nobody used sudo."""
    monkeypatch.delenv(SAFE_FOLDERS_VARIABLE, raising=False)
    monkeypatch.delenv("SUDO_UID", raising=False)


def written_by_other(file: Path, text: str) -> Path:
    """A file that another account has put there."""
    file.write_text(text, encoding="utf-8")
    os.chown(file, OTHER, OTHER)
    return file


def test_a_project_file_of_another_account_is_refused(tmp_path: Path) -> None:
    """In a folder above that everybody may write to, such as /tmp; with what says that it is trusted."""
    tmp_path.chmod(0o777)
    file = written_by_other(
        tmp_path / "penstock.toml",
        '[spark.conf]\n"spark.driver.extraJavaOptions" = "-agentpath:/tmp/evil.so"\n',
    )
    (tmp_path / "mine").mkdir()

    with pytest.raises(ConfigError, match=f"belongs to another user .uid {OTHER}.") as caught:
        find_project(tmp_path / "mine")
    assert f"{SAFE_FOLDERS_VARIABLE}={tmp_path}" in (caught.value.hint or "")
    assert str(file) in caught.value.message


def test_a_project_in_a_folder_of_another_account_is_refused(tmp_path: Path) -> None:
    """Who owns the folder can put another file there at any time; a link is its maker's."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "penstock.toml").write_text("", encoding="utf-8")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "penstock.toml").write_text("", encoding="utf-8")
    os.chown(theirs, OTHER, OTHER)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "penstock.toml").symlink_to(own / "penstock.toml")
    os.lchown(linked / "penstock.toml", OTHER, OTHER)

    assert find_project(own).file == own / "penstock.toml"
    for folder in (theirs, linked):
        with pytest.raises(ConfigError, match="belongs to another user"):
            find_project(folder)


def test_a_folder_that_is_trusted_by_name_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the environment alone; so are the files of the user who used sudo."""
    written_by_other(tmp_path / "penstock.toml", "")
    monkeypatch.setenv(SAFE_FOLDERS_VARIABLE, f"/elsewhere{os.pathsep}{tmp_path}")
    assert find_project(tmp_path).file is not None

    monkeypatch.setenv(SAFE_FOLDERS_VARIABLE, f"{tmp_path}-not")
    with pytest.raises(ConfigError):
        find_project(tmp_path)

    monkeypatch.setenv("SUDO_UID", str(OTHER))
    assert find_project(tmp_path).file is not None


def test_variables_and_data_of_another_account_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.env` reaches the environment of children; a catalog says what names mean."""
    written_by_other(tmp_path / ".env", "AWS_SECRET_ACCESS_KEY=theirs\n")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    for read in (find_project, load_dotenv):
        with pytest.raises(ConfigError, match="belongs to another user"):
            read(tmp_path)
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ

    (tmp_path / ".env").unlink()
    (tmp_path / ".penstock").mkdir()
    os.chown(tmp_path / ".penstock", OTHER, OTHER)
    with pytest.raises(ConfigError, match=r"\.penstock is not used"):
        find_project(tmp_path)


def test_a_template_includes_no_file_of_another_account(tmp_path: Path) -> None:
    """Nor a macro of the project's folder."""
    written_by_other(tmp_path / "theirs.sql", "SELECT 1")
    folders = Project(root=tmp_path).folders
    with pytest.raises((ConfigError, TemplateError), match="belongs to another user"):
        render_template("{% include 'theirs.sql' %}", str(tmp_path / "a.sql"), {}, {}, folders)

    (tmp_path / "macros").mkdir()
    written_by_other(tmp_path / "macros" / "m.sql", "{% macro m() %}1{% endmacro %}")
    with pytest.raises((ConfigError, TemplateError), match="belongs to another user"):
        render_template("{{ m() }}", str(tmp_path / "a.sql"), {}, {}, folders)


@pytest.mark.parametrize(
    "name",
    ["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES",
     "PYTHONPATH", "PYTHONSTARTUP", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "SPARK_HOME",
     "HADOOP_CONF_DIR", "CLASSPATH", "PATH", "BASH_ENV", "PENSTOCK_SAFE_FOLDERS", "PENSTOCK_FAILURE_MARK"],
)  # fmt: skip
def test_a_file_of_variables_does_not_decide_what_code_children_load(
    tmp_path: Path, name: str
) -> None:
    """Its own file too: what is cloned belongs to who cloned it."""
    (tmp_path / ".env").write_text(f"TOPIC=orders\n{name}=/tmp/evil\n", encoding="utf-8")

    with pytest.raises(ConfigError, match=f"{name} is not set from a file"):
        read_dotenv(tmp_path / ".env")
    (tmp_path / ".env").write_text("JAVA_VERSION=17\nPATHS=a\nENV=prod\n", encoding="utf-8")
    assert len(read_dotenv(tmp_path / ".env")) == 3
