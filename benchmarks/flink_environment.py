"""The environment of Flink SQL for `make bench`: `python -m benchmarks.flink_environment VENV` makes it.

apache-flink pins libraries that Penstock has in other versions, so it gets an environment of its own. Its Kafka
connector is fetched as Penstock's jars are.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from penstock.connector.jvm.jars import fetch_jars, read_jar_set

HERE = Path(__file__).resolve().parent
FLINK_KAFKA = HERE / "flink-kafka.jars"
SCRIPT = HERE / "flink_sql.py"
REQUIREMENT = "apache-flink==2.2.0"


def interpreter(environment: Path) -> Path:
    """Return the environment's Python."""
    return environment.absolute() / "bin" / "python"


def unusable(environment: Path | None) -> str | None:
    """Say why Flink cannot take part; None where it can."""
    if environment is None:
        return "it needs --flink VENV"
    python = interpreter(environment)
    make = f"`python -m benchmarks.flink_environment {environment}` makes it"
    if not python.exists():
        return f"{python} is not there; {make}"
    tried = subprocess.run([python, "-c", "import pyflink.table"], capture_output=True, check=False)
    return f"{python} does not import pyflink; {make}" if tried.returncode else None


def flink_command(environment: Path, arguments: Sequence[str], script: Path = SCRIPT) -> list[str]:
    """Return the command of a contestant that serves orders; the jars come first."""
    jars = ";".join(jar.as_uri() for jar in fetch_jars(read_jar_set(FLINK_KAFKA)))
    return [str(interpreter(environment)), str(script), jars, *arguments]


def main() -> int:
    """Make the environment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", type=Path, metavar="VENV")
    environment = parser.parse_args().environment
    venv.create(environment, with_pip=True)
    install = [str(interpreter(environment)), "-m", "pip", "install", "--quiet", REQUIREMENT]
    if status := subprocess.run(install, check=False).returncode:
        return status
    fetch_jars(read_jar_set(FLINK_KAFKA))
    return 0


if __name__ == "__main__":
    sys.exit(main())
