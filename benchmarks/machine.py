"""The machine that figures were measured on, to stand beside them."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version


def machine() -> dict[str, str]:
    """What it ran on and with."""
    packages = ("pyspark", "delta-spark", "confluent-kafka", "pyarrow")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def describe_machine() -> str:
    """What it ran on and with, as a line."""
    return ", ".join(f"{name} {value}" for name, value in machine().items())
