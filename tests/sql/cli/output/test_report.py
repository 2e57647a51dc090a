"""Errors of commands as text on stderr, and their exit status."""

from __future__ import annotations

import pytest
import typer

from penstock.sql.cli.output.report import reporting
from penstock.sql.errors.exit_status import ExitStatus


class LostError(Exception):
    """As an error of Java whose process has ended: its message cannot be had any more."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


def test_an_error_whose_message_is_lost_is_an_error_all_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command ends with its status, without a stack, and says where to look."""
    context = typer.Context(typer.main.get_command(typer.Typer(callback=print)))
    with pytest.raises(typer.Exit) as ended, reporting(context):
        raise LostError

    assert ended.value.exit_code == ExitStatus.FAILED
    said = capsys.readouterr().err
    assert "LostError: its message is lost" in said
    assert "see the log of Spark" in said
