"""Runs `penstock serve` as a person would, in a process of its own, with one user in a password file."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.connector.jvm.interrupts import interrupts_deferred

STOP_TIMEOUT_S = 60.0
PENSTOCK = Path(sys.executable).with_name("penstock")


class ServerFailedError(Exception):
    """`penstock serve` ended before it served; it has already said why."""


class BiServer:
    """A server on any free port of the loopback interface, which also runs the pipeline of a SQL file.

    `folder` is its project, `user` a name and a password; `more` are other options. Raises ServerFailedError.
    """

    def __init__(
        self,
        folder: Path,
        script: Path,
        variables: Mapping[str, str],
        user: tuple[str, str],
        more: tuple[str, ...] = (),
    ) -> None:
        self._folder = folder
        self._user = user
        self._command = [str(PENSTOCK), "serve", "--port", "0", "--users", "users"]
        self._command += ["--sql", str(script), "--format", "json", *more]
        for name, value in variables.items():
            self._command += ["--var", f"{name}={value}"]
        self._process: subprocess.Popen[str] | None = None
        self._started: dict[str, Any] = {}

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._started["port"])

    @property
    def url(self) -> str:
        """The address for JDBC."""
        return str(self._started["jdbc"])

    def __enter__(self) -> Self:
        name, password = self._user
        add = [str(PENSTOCK), "serve", "users", "add", name, "--file", "users"]
        subprocess.run(
            add, cwd=self._folder, input=password, text=True, check=True, capture_output=True
        )
        with interrupts_deferred():
            # a group of its own: Ctrl-C comes from here, once
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        try:
            self._started = self._read_start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> int:
        """Stop it as Ctrl-C does, and give its exit status."""
        process = self._process
        assert process is not None, "it was started"
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            status = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        assert process.stdout is not None, "it is a pipe"
        process.stdout.close()
        return status

    def _read_start(self) -> dict[str, Any]:
        """Read the document that it writes when it serves."""
        assert self._process is not None, "it was started"
        assert self._process.stdout is not None, "it is a pipe"
        text = ""
        for line in self._process.stdout:
            text += line
            if line.rstrip() == "}":
                started: dict[str, Any] = json.loads(text)
                if "port" in started:
                    return started
        raise ServerFailedError(f"penstock serve ended with status {self._process.wait()}")
