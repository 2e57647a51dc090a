"""A standalone Spark cluster on loopback, made of pyspark's own classes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Self

import pyspark

from penstock.connector.jvm.java import find_java
from tests.integration.pipeline import descendants, wait_until


class Cluster:
    """A master and two workers of one core each, on `hosts`: Spark tries no task twice at a time on one host."""

    def __init__(self, folder: Path, hosts: tuple[str, str] = ("127.0.0.1", "127.0.0.1")) -> None:
        self._folder = folder
        self._hosts = hosts
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Self:
        """Start it; what was started is stopped again where that fails."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def start(self) -> None:
        """Start the master, wait for its address, start the workers, wait until they are registered."""
        self._launch(
            "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0"
        )
        wait_until(
            lambda: "Starting Spark master at" in self._log("master"), seconds=60, what="the master"
        )
        found = re.search(r"spark://[0-9.]+:\d+", self._log("master"))
        assert found is not None
        self.url = found.group(0)
        for number, host in enumerate(self._hosts, start=1):
            work = str(self._folder / f"work-{number}")
            options = ("--host", host, "-c", "1", "-m", "1g", "-d", work)
            self._launch(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *options, self.url
            )
        wait_until(
            lambda: self._log("master").count("Registering worker") == 2,
            seconds=60,
            what="two workers",
        )

    def stop(self) -> None:
        """Stop everything."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(30)

    def executors(self) -> list[int]:
        """Process ids of the executors' JVMs that run now."""
        below = [pid for process in self._processes for pid in descendants(process.pid)]
        return [pid for pid in below if b"CoarseGrainedExecutorBackend" in _command_line(pid)]

    def python_workers(self) -> list[int]:
        """Process ids of the executors' Python processes that run now."""
        below = [child for pid in self.executors() for child in descendants(pid)]
        return [pid for pid in below if b"pyspark.daemon" in _command_line(pid)]

    def _launch(self, name: str, main: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": "2.13",  # bin/load-spark-env.sh sets it for the scripts
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [str(find_java().executable), "-Xmx512m", "-cp", f"{home}/jars/*"]
        # outside of bin/spark-class nobody opens these packages for Spark
        command += [
            f"--add-opens=java.base/{package}=ALL-UNNAMED"
            for package in ("java.lang", "java.nio", "sun.nio.ch")
        ]
        log = (self._folder / f"{name}.log").open("wb")
        self._processes.append(
            subprocess.Popen(
                [*command, main, "--webui-port", "0", *arguments],
                stdout=log,
                stderr=log,
                env=environment,
            )
        )

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it ended meanwhile
