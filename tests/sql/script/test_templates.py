"""Templates are strict, closed, and remember where each line came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import InputError, TemplateError
from penstock.catalog.secrets.crypto import KEY_VARIABLE, new_key
from penstock.sql.errors.render import render
from penstock.sql.script import template_limits, template_rendering
from penstock.sql.script.files import TemplateFolders
from penstock.sql.script.project import Project
from penstock.sql.script.templates import render_template
from penstock.sql.syntax.positions import Source


def rendered(text: str, **variables: object) -> Source:
    """A template in a file that does not exist."""
    return render_template(text, "jobs/a.sql", variables, {"HOME_TOPIC": "home"})


def test_a_text_without_templates_is_left_alone() -> None:
    """No line map is needed: lines are what they are."""
    text = "SELECT '%' || '}' FROM t\n"

    assert rendered(text) == Source(file="jobs/a.sql", text=text, line_map=None)


def test_variables_are_read_with_var_and_env_var() -> None:
    """Both take a default."""
    text = "{{ var('a') }} {{ var('b', 2) }} {{ env_var('HOME_TOPIC') }} {{ env_var('NO', 'x') }}"

    assert rendered(text, a=1).text == "1 2 home x"


def test_a_loop_maps_its_lines_to_the_template() -> None:
    """Each time round."""
    text = "SELECT 1\n{%- for i in range(2) %},\n  {{ i }} AS c{{ i }}\n{%- endfor %}\nFROM t\n"

    result = rendered(text)

    assert result.text == "SELECT 1,\n  0 AS c0,\n  1 AS c1\nFROM t\n"
    assert [origin.line for origin in result.line_map or ()] == [1, 3, 3, 5, 6]
    assert {origin.text for origin in result.line_map or () if origin.line == 3} == {
        "  {{ i }} AS c{{ i }}"
    }


def places(result: Source) -> list[tuple[str, int, tuple[str, ...]]]:
    """File (without its folder), line, and the places that put it in."""
    return [
        (Path(o.file).name, o.line, tuple(Path(place).name for place in o.called_from))
        for o in result.line_map or ()
    ]


def test_the_text_of_a_macro_counts_as_its_own_line_called_from_another() -> None:
    """A person edits the macro, or what it is given."""
    text = "{% macro m(a) %}x\n{{ a }}{% endmacro %}\n\n{{ m(1) }}\nz"

    result = rendered(text)

    assert result.text == "\n\nx\n1\nz"
    assert places(result)[2:] == [
        ("a.sql", 1, ("a.sql:4",)),
        ("a.sql", 2, ("a.sql:4",)),
        ("a.sql", 5, ()),
    ]


def test_a_template_never_sees_where_a_text_came_from() -> None:
    """Lengths, comparisons and filters are those of the plain text."""
    text = (
        "{% macro m() %}ab{% endmacro %}{% set s %}c{{ m() }}{% endset %}"
        "{{ m() | length }} {{ s == 'cab' }} {{ m() ~ s }} {{ s | upper }} {{ s[1:] }}"
    )

    assert rendered(text).text == "2 True abcab CAB ab"


def test_an_include_maps_to_its_own_file(tmp_path: Path) -> None:
    """Files are looked for in the folder of the file."""
    (tmp_path / "inc.sql").write_text("-- one\nSELECT {{ var('x') }}")
    file = tmp_path / "a.sql"

    result = render_template("-- a\n{% include 'inc.sql' %};\n-- b", str(file), {"x": 5}, {})

    assert result.text == "-- a\n-- one\nSELECT 5;\n-- b"
    assert places(result) == [
        ("a.sql", 1, ()),
        ("inc.sql", 1, ("a.sql:2",)),
        ("inc.sql", 2, ("a.sql:2",)),
        ("a.sql", 3, ()),
    ]


def in_project(root: Path, text: str, **env: str) -> Source:
    """A template in the folder `jobs` of a project, whose secrets are in `keys`."""
    (root / "jobs").mkdir(exist_ok=True)
    folders = TemplateFolders(root=root, secrets=root / "keys")
    return render_template(text, str(root / "jobs" / "a.sql"), {}, env, folders)


def test_macros_of_the_project_are_known_in_every_file(tmp_path: Path) -> None:
    """By name, to each other too; one that begins with an underscore is for its own file."""
    (tmp_path / "macros" / "money").mkdir(parents=True)
    (tmp_path / "macros" / "m.sql").write_text(
        "{% macro _x(a) %}<{{ a }}>{% endmacro %}{% macro id(a) %}{{ _x(cents(a)) }}{% endmacro %}"
    )
    (tmp_path / "macros" / "money" / "n.sql").write_text(
        "\n{% macro cents(a) %}{{ a }} * 100{% endmacro %}"
    )

    result = in_project(tmp_path, "-- a\nSELECT\n{{ id('x') }}")

    assert result.text == "-- a\nSELECT\n<x * 100>"
    assert places(result)[2] == ("m.sql", 1, ("m.sql:1", "a.sql:3"))
    with pytest.raises(TemplateError, match="'_x' is undefined"):
        in_project(tmp_path, "{{ _x(1) }}")
    with pytest.raises(TemplateError) as caught:
        in_project(tmp_path, "{{ cent(1) }}")
    assert caught.value.hint == "did you mean 'cents'?"


def test_braces_of_another_tool_are_told_how_to_write(tmp_path: Path) -> None:
    """`{{secret:a/b}}` is what an operator of Flink fills in, and no template of Jinja."""
    with pytest.raises(TemplateError) as caught:
        in_project(tmp_path, "SELECT 1;\nSET 'a' = '{{secret:flink/user/password}}'")

    assert caught.value.hint is not None
    assert "{% raw %}" in caught.value.hint
    assert "${secret:name}" in caught.value.hint


def test_a_macro_that_is_defined_twice_is_an_error(tmp_path: Path) -> None:
    """Its name would depend on the order of files."""
    (tmp_path / "macros").mkdir()
    for name in ("a.sql", "b.sql"):
        (tmp_path / "macros" / name).write_text("{% macro m() %}{% endmacro %}")

    with pytest.raises(TemplateError, match="'m' is defined twice") as caught:
        in_project(tmp_path, "{{ m() }}")

    assert caught.value.span is not None
    assert (Path(caught.value.span.file).name, caught.value.span.column) == ("b.sql", 10)


@pytest.mark.parametrize("name", ["var", "env_var", "secret", "range"])
def test_a_macro_does_not_take_the_name_of_a_function(tmp_path: Path, name: str) -> None:
    """A template that calls functions alone has no bounds, as those do not loop."""
    (tmp_path / "macros").mkdir()
    (tmp_path / "macros" / "m.sql").write_text(
        f"{{% macro {name}(a) %}}{{{{ 'of the macro' }}}}{{% endmacro %}}"
    )

    with pytest.raises(TemplateError, match="has the name of a function") as caught:
        in_project(tmp_path, f"{{{{ {name}('x') }}}}", x="of the environment")
    assert caught.value.span is not None
    assert caught.value.span.line_text.startswith(f"{{% macro {name}")


def test_no_file_outside_the_project_is_read(tmp_path: Path) -> None:
    """Neither by a path nor by a link."""
    project = tmp_path / "project"
    (project / "jobs").mkdir(parents=True)
    (tmp_path / "outside.sql").write_text("SELECT 'outside'")
    (project / "jobs" / "link.sql").symlink_to(tmp_path / "outside.sql")
    (project / "shared.sql").write_text("SELECT 1")

    assert in_project(project, "{% include 'shared.sql' %}").text == "SELECT 1"
    for name in ("link.sql", "../../outside.sql", str(tmp_path / "outside.sql")):
        with pytest.raises(TemplateError, match="no file"):
            in_project(project, f"{{% include '{name}' %}}")


def test_a_secret_comes_from_the_environment_or_a_file_and_is_masked(tmp_path: Path) -> None:
    """It is in the SQL that runs, and in nothing that is shown."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "PIN").write_text("from-a-file-7\n")

    result = in_project(tmp_path, "'{{ secret('PIN') }}' '{{ secret('PW') }}'", PW="from-env-8")

    assert result.text == "'from-a-file-7' 'from-env-8'"
    assert result.span(0, 3).line_text == "'*************' '**********'"
    assert render(InputError(f"bad: {result.text}")).endswith("bad: '******' '******'")


def test_the_key_of_the_secrets_is_in_no_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as a variable, a default or not, a secret of that name, nor in what a template includes."""
    key = new_key()
    monkeypatch.setenv(KEY_VARIABLE, key)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "copy").write_text(key)
    (tmp_path / "keys" / "linked").symlink_to("/proc/self/environ")
    (tmp_path / "key.sql").write_text(f"-- {key}")
    (tmp_path / ".env").write_text("PASSWORD=hunter2")
    (tmp_path / ".penstock").mkdir()
    (tmp_path / ".penstock" / "secret.key").write_text("hunter2")
    (tmp_path / "linked.sql").symlink_to(tmp_path / ".env")
    project = Project(root=tmp_path)

    assert KEY_VARIABLE not in project.environment
    for text in (
        f"{{{{ env_var('{KEY_VARIABLE}') }}}}",
        f"{{{{ env_var('{KEY_VARIABLE}', 'x') }}}}",
        f"{{{{ secret('{KEY_VARIABLE}') }}}}",
        "{{ secret('copy') }}",
        "{{ secret('linked') }}",
        "{% include 'key.sql' %}",
        "{% include '.env' %}",
        "{% include '.penstock/secret.key' %}",
        "{% include 'linked.sql' %}",
    ):
        with pytest.raises(TemplateError) as caught:
            in_project(tmp_path, text, **{KEY_VARIABLE: key})
        assert key not in render(caught.value)
        assert "hunter2" not in render(caught.value)


@pytest.mark.parametrize(
    "text", ["env_var('BACKUP')", "env_var('BACKUP', 'x')", "secret('BACKUP')"]
)
def test_a_copy_of_the_key_in_another_variable_is_in_no_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """A filter would turn it into something that is not masked."""
    key = new_key()
    monkeypatch.setenv(KEY_VARIABLE, key)

    with pytest.raises(TemplateError, match="gives the key of the secrets itself") as caught:
        in_project(tmp_path, f"{{{{ {text}|list|join('-') }}}}", BACKUP=f"{key},old")
    assert "-".join(key) not in render(caught.value)
    assert key not in render(caught.value)


def test_a_missing_secret_says_where_it_is_looked_for(tmp_path: Path) -> None:
    """There is no default: it would stand in the file."""
    with pytest.raises(TemplateError, match="secret\\('PIN'\\) is not defined") as caught:
        in_project(tmp_path, "{{ secret('PIN') }}")

    assert str(tmp_path / "keys" / "PIN") in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "message", "hint", "line"),
    [
        ("a\n{{ var('topc') }}", "var('topc') is not defined", "did you mean 'topic'?", 2),
        ("{{ env_var('X') }}", "env_var('X') is not defined", "set it in the environment", 1),
        ("\n\n{{ foo }}", "'foo' is undefined", "variables are read with {{ var('name') }}", 3),
        ("a\n{% if %}", "Expected an expression, got 'end of statement block'", None, 2),
        ("{{ ''.__class__.__mro__ }}", "the template may not do this", None, 1),
        (
            "{% include '../secret' %}",
            "there is no file '../secret' to include",
            "in the folder",
            1,
        ),
        ("{{ 1 / 0 }}", "division by zero", None, 1),
    ],
)
def test_an_error_names_the_line_of_the_template(
    text: str, message: str, hint: str | None, line: int
) -> None:
    """And what to do."""
    with pytest.raises(TemplateError) as caught:
        rendered(text, topic="t")
    error = caught.value

    assert error.message.startswith(message)
    assert hint is None or (error.hint is not None and hint in error.hint)
    assert error.span is not None
    assert (error.span.file, error.span.line) == ("jobs/a.sql", line)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT {{ var('topc') }} FROM t", "topc"),
        ("SELECT {{ foo }} FROM t", "foo"),
        ("  {% include 'none.sql' %}", "none.sql"),
        ("SELECT {{ var('a') }}, {{ var('a') }}", "SELECT {{ var('a') }}, {{ var('a') }}"),
    ],
)
def test_the_caret_stands_under_the_name_that_is_wrong(text: str, word: str) -> None:
    """Under the whole line where the name stands there twice."""
    with pytest.raises(TemplateError) as caught:
        rendered(text)
    span = caught.value.span

    assert span is not None
    assert span.line_text[span.column - 1 : span.column - 1 + span.length] == word


def test_an_error_in_an_include_names_that_file(tmp_path: Path) -> None:
    """Its line, not the one that includes it."""
    (tmp_path / "inc.sql").write_text("x\ny\n{{ nothing }}")

    with pytest.raises(TemplateError) as caught:
        render_template("{% include 'inc.sql' %}", str(tmp_path / "a.sql"), {}, {})

    assert caught.value.span is not None
    assert (caught.value.span.file, caught.value.span.line) == (str(tmp_path / "inc.sql"), 3)


def test_variables_supplied_are_listed_but_not_the_environment() -> None:
    """An environment may hold secrets, even in its names."""
    with pytest.raises(TemplateError) as var:
        rendered("{{ var('zzz') }}", topic="t", brokers="b")
    with pytest.raises(TemplateError) as env:
        rendered("{{ env_var('zzz') }}")

    assert "those supplied: brokers, topic" in (var.value.hint or "")
    assert "HOME_TOPIC" not in (env.value.hint or "")


def test_a_template_cannot_change_what_it_is_given() -> None:
    """The sandbox is an immutable one."""
    with pytest.raises(TemplateError):
        rendered("{% set _ = var('l').append(1) %}", l=[1])


def test_a_template_cannot_fill_the_memory() -> None:
    """Its output has a bound."""
    loop = "{% for i in range(9999) %}{% for j in range(9999) %}aaaaaaaaaa{% endfor %}{% endfor %}"

    with pytest.raises(TemplateError, match="renders to more than"):
        rendered(loop)


ENDLESS = [
    "SELECT 1;\n{{ 9**(9**8) }}",
    "SELECT 1;\n{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "SELECT 1;\n{{ '%2000000000d' % 1 }}",
    "SELECT 1;\n{{ '{:>2000000000}'.format(1) }}",
    "SELECT 1;\n{{ 'x'.ljust(2000000000) }}",
    "SELECT 1;\n{{ 'x' * 2000000000 }}",
    "SELECT 1;\n{{ 'x'|center(2000000000) }}",
    "SELECT 1;\n{{ ('a' * 100000)|replace('a', 'b' * 100000) }}",
    "SELECT 1;\n{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "SELECT 1;\n{% include 'circle.sql' %}",
    "SELECT 1;\n{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "SELECT 1;\n{{ [1] " + "+ [1]" * 9000 + " }}",
]


@pytest.mark.parametrize("text", ENDLESS, ids=range(len(ENDLESS)))
def test_a_template_without_an_end_is_stopped_and_told_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Time, memory and depth have bounds; the process that asked has lost neither."""
    monkeypatch.setattr(template_limits, "LONGEST_S", 0.2)
    monkeypatch.setattr(template_limits, "_GRACE_S", 0.2)
    (tmp_path / "circle.sql").write_text("{% include 'circle.sql' %}")

    with pytest.raises(TemplateError) as caught:
        in_project(tmp_path, text)
    assert caught.value.hint
    assert caught.value.span is not None
    assert caught.value.span.file.endswith(("jobs.sql", "a.sql", "circle.sql"))


def test_secrets_of_a_template_with_loops_are_masked_here(tmp_path: Path) -> None:
    """It was rendered in another process."""
    result = in_project(
        tmp_path, "{% for n in range(2) %}'{{ secret('PW') }}'{% endfor %}", PW="of-loop-9"
    )

    assert result.text == "'of-loop-9''of-loop-9'"
    assert render(InputError(result.text)).endswith("'******''******'")


def test_plain_templates_need_no_process_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named values are put in where they are; a loop, a filter or arithmetic is bounded."""
    monkeypatch.delattr(template_rendering, "within_limits")
    assert rendered("{# a #}{{ var('a', 1) }} {{ var('b', 2) }} {{ env_var('NO', 'x') }}").text
