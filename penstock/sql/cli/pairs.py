"""Reads `K=V` arguments and files of variables."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from penstock.catalog.errors import ConfigError

__all__ = ["read_pairs", "read_variables"]


def read_pairs(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """Read `K=V` arguments; the last of a key wins. Raises a usage error for one without `=`."""
    values: dict[str, str] = {}
    for pair in pairs or ():
        key, found, value = pair.partition("=")
        if not found or not key.strip():
            raise typer.BadParameter(f"{pair!r} is not K=V", param_hint=f"'{option}'")
        values[key.strip()] = value
    return values


def read_variables(file: Path | None) -> dict[str, Any]:
    """Read a TOML or JSON file of variables. Raises ConfigError."""
    if file is None:
        return {}
    try:
        text = file.read_text(encoding="utf-8")
        match file.suffix.lower():
            case ".toml":
                values = tomllib.loads(text)
            case ".json":
                values = json.loads(text)
            case _:
                raise ConfigError(
                    f"{file} is neither TOML nor JSON",
                    hint="name it *.toml with lines such as topic = 'orders', or *.json",
                )
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOMLDecodeError, JSONDecodeError and UnicodeDecodeError are such
        raise ConfigError(f"{file}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{file} must hold names and values, not {type(values).__name__}")
    return values
