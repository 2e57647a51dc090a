"""`penstock version`: which releases of ours, Spark and Delta are installed."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

import typer

import penstock

__all__ = ["print_version", "version"]


def version() -> None:
    """Show the versions of Penstock, Python, Spark and Delta. Example: `penstock version`"""
    print_version(True)


def print_version(wanted: bool) -> None:
    """Print the versions and end the command, if that is what was asked for."""
    if not wanted:
        return
    parts = (
        f"python {platform.python_version()}",
        *(f"{name} {_installed(name)}" for name in ("pyspark", "delta-spark")),
    )
    typer.echo(f"penstock {penstock.__version__} ({', '.join(parts)})")
    raise typer.Exit


def _installed(distribution: str) -> str:
    try:
        return installed(distribution)
    except PackageNotFoundError:
        return "not installed"
