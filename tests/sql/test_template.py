"""Templates are strict, closed, and remember where each line came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import TemplateError
from penstock.sql.template import Rendered, render_template


def rendered(text: str, **variables: object) -> Rendered:
    """A template in a file that does not exist."""
    return render_template(text, "jobs/a.sql", variables, {"HOME_TOPIC": "home"})


def test_a_text_without_templates_is_left_alone() -> None:
    """No line map is needed: lines are what they are."""
    text = "SELECT '%' || '}' FROM t\n"

    assert rendered(text) == Rendered(text=text, line_map=None)


def test_variables_are_read_with_var_and_env_var() -> None:
    """Both take a default."""
    text = "{{ var('a') }} {{ var('b', 2) }} {{ env_var('HOME_TOPIC') }} {{ env_var('NO', 'x') }}"

    assert rendered(text, a=1).text == "1 2 home x"


def test_a_loop_maps_its_lines_to_the_template() -> None:
    """Each time round."""
    text = "SELECT 1\n{%- for i in range(2) %},\n  {{ i }} AS c{{ i }}\n{%- endfor %}\nFROM t\n"

    result = rendered(text)

    assert result.text == "SELECT 1,\n  0 AS c0,\n  1 AS c1\nFROM t\n"
    assert [line for _, line in result.line_map or ()] == [1, 3, 3, 5, 6]


def test_a_macro_counts_as_the_line_that_calls_it() -> None:
    """Its text is made by that line, and marks would show inside it."""
    text = "{% macro m(a) %}x\n{{ a }}{% endmacro %}\n\n{{ m(1) }}\n{{ m(2) | length }}"

    result = rendered(text)

    assert result.text == "\n\nx\n1\n3"
    assert [line for _, line in result.line_map or ()] == [2, 3, 4, 4, 5]


def test_an_include_maps_to_its_own_file(tmp_path: Path) -> None:
    """Files are looked for in the folder of the file."""
    (tmp_path / "inc.sql").write_text("-- one\nSELECT {{ var('x') }}")
    file = tmp_path / "a.sql"

    result = render_template("-- a\n{% include 'inc.sql' %};\n-- b", str(file), {"x": 5}, {})

    assert result.text == "-- a\n-- one\nSELECT 5;\n-- b"
    assert result.line_map == (
        (str(file), 1),
        (str(tmp_path / "inc.sql"), 1),
        (str(tmp_path / "inc.sql"), 2),
        (str(file), 3),
    )


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
