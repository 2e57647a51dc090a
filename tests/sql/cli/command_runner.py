"""Runs commands of `penstock` in the process of the test."""

from __future__ import annotations

from functools import cache
from typing import Any
from unittest import mock

from typer import Typer
from typer.main import get_command
from typer.testing import CliRunner, Result

__all__ = ["CommandRunner", "built"]

built = cache(get_command)
"""Build the commands of an application, once."""


class CommandRunner(CliRunner):
    """Typer's runner, which builds the commands of an application once, and not for each call."""

    def invoke(self, app: Typer, *arguments: Any, **more: Any) -> Result:
        """Run a command, as `CliRunner.invoke`."""
        with mock.patch("typer.testing._get_command", built):
            return super().invoke(app, *arguments, **more)
