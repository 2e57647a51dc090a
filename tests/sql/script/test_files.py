"""Files of environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import ConfigError
from penstock.sql.script.files import read_dotenv


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("K=plain", "plain"),
        ("export K = spaced  # why", "spaced"),
        ("K=", ""),
        ("K='a # b $x'", "a # b $x"),
        ('K="a \\"b\\"\\n"', 'a "b"\n'),
        ("K=a=b==", "a=b=="),
        ("K=a'b", "a'b"),
        ("K=''", ""),
    ],
)
def test_a_value_is_read_as_a_shell_would(tmp_path: Path, line: str, value: str) -> None:
    """Quotes, comments, export; nothing is expanded."""
    file = tmp_path / ".env"
    file.write_text(f"# first\n\n{line}\n")

    assert read_dotenv(file) == {"K": value}


def test_a_line_that_is_none_is_told_without_its_value(tmp_path: Path) -> None:
    """It may be a password."""
    file = tmp_path / ".env"
    file.write_text("A=1\nmy key=hush'hush\n")

    with pytest.raises(ConfigError) as caught:
        read_dotenv(file)

    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.line_text) == (2, "my key")


def test_no_file_has_no_variables(tmp_path: Path) -> None:
    """It is optional."""
    assert read_dotenv(tmp_path / ".env") == {}
