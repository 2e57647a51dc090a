"""Whether the optional package `penstock-native` is there and can be used, and why not."""

from __future__ import annotations

import importlib
import logging
import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

PACKAGE = "penstock_native"

SWITCH = "PENSTOCK_NATIVE"
"""Set to 0, records are read in Python."""

API = 3
"""The interface of the package that this module, `draining` and `formats/json/native` are written for."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """The package, or None; `text` says which version is used, or why none is.

    `faulty`: it is installed, and cannot be used.
    """

    package: ModuleType | None
    text: str
    faulty: bool = False


_FOUND: list[Native] = []
"""What this process found when it looked first."""


def native_package() -> ModuleType | None:
    """Return the package if records are to be drained and decoded by it."""
    if os.environ.get(SWITCH) == "0":
        return None
    if not _FOUND:
        found = find_native()
        _FOUND.append(found)
        if found.faulty:
            give_up(found.text)
    return _FOUND[0].package


def find_native() -> Native:
    """Look for the package, and check that it fits this Penstock and the loaded librdkafka."""
    if os.environ.get(SWITCH) == "0":
        return Native(package=None, text=f"off by {SWITCH}=0: records are read in Python")
    try:
        package = importlib.import_module(PACKAGE)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == PACKAGE:
            return Native(package=None, text="not installed: records are read in Python")
        return Native(package=None, text=f"it cannot be loaded: {error}", faulty=True)
    found = getattr(package, "API", None)
    if found != API:
        reason = f"penstock-native has the interface {found}, this Penstock uses {API}"
        return Native(package=None, text=reason, faulty=True)
    try:
        client = package.check_client()
    except (package.UnusableError, OSError, AttributeError) as error:
        return Native(package=None, text=str(error), faulty=True)
    return Native(package=package, text=f"penstock-native {_version()}, librdkafka {client}")


def _version() -> str:
    try:
        return version("penstock-native")
    except PackageNotFoundError:
        return "of a folder"  # as on PYTHONPATH


def give_up(reason: str) -> None:
    """Read in Python from now on, in this process, and say so in the log."""
    _FOUND[:] = [Native(package=None, text=reason, faulty=True)]
    logger.warning("Kafka is read in Python, not by penstock-native: %s", reason)
