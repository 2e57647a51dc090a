"""`penstock version`: which releases of ours, Spark and Delta are installed."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

import typer

import penstock

__all__ = ["version"]


def version() -> None:
    """Show the versions of Penstock, Python, Spark and Delta. Example: `penstock version`"""
    parts = (
        f"python {platform.python_version()}",
        *(f"{name} {_installed(name)}" for name in ("pyspark", "delta-spark")),
    )
    typer.echo(f"penstock {penstock.__version__} ({', '.join(parts)})")


def _installed(distribution: str) -> str:
    try:
        return installed(distribution)
    except PackageNotFoundError:
        return "not installed"
