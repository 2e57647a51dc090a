"""Stops a JVM at a method, by the debugger of the JDK (jdb): for moments that no failpoint of ours can reach."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from types import TracebackType
from typing import Self

from penstock.connector.jvm.java import find_java
from tests.integration.pipeline import wait_until

ANSWER_S = 60


def agent(port: int) -> str:
    """Give the Java option by which a JVM lets a debugger in, on a port of this machine."""
    return f"-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:{port}"


class Debugger:
    """jdb, attached to the JVM behind a port."""

    def __init__(self, port: int) -> None:
        """Nothing runs yet."""
        beside = find_java().executable.with_name("jdb")
        command = str(beside) if beside.exists() else shutil.which("jdb")
        assert command is not None, "a JDK is needed, not only a JRE: there is no jdb"
        self._command = [command, "-attach", f"127.0.0.1:{port}"]
        self._text = ""

    def __enter__(self) -> Self:
        """Attach."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        threading.Thread(target=self._read, daemon=True).start()
        self._until(r"> $")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Detach; the JVM goes on."""
        self._process.terminate()
        self._process.wait(ANSWER_S)

    def stop_in(self, method: str) -> None:
        """Stop all threads each time that a method begins."""
        self._say(f"stop in {method}")
        self._until(r"Set .*breakpoint")

    def until_stopped(self) -> None:
        """Wait until the method begins."""
        self._until(r"Breakpoint hit:.*\] $")

    def value(self, expression: str) -> str:
        """Give what an expression is, where the JVM stands."""
        self._text = ""
        self._say(f"print {expression}")
        self._until(r" = (.*)\n")
        found = re.search(r" = (.*)\n", self._text)
        assert found is not None, "it was waited for"
        return found.group(1)

    def go_on(self) -> None:
        """Let all threads go on."""
        self._text = ""
        self._say("cont")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while text := self._process.stdout.read1(4096):  # type: ignore[attr-defined]
            self._text += text.decode(errors="replace")

    def _until(self, pattern: str) -> None:
        found = re.compile(pattern, re.DOTALL if "hit" in pattern else 0)
        wait_until(
            lambda: found.search(self._text) is not None,
            seconds=ANSWER_S,
            what=f"jdb: {pattern}; it said {self._text[-500:]}",
        )
