"""The house style as tests: what a linter does not know and a reviewer should not have to say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "penstock"
MODULES = sorted(PACKAGE.rglob("*.py"))

MODULE_LINES = 500
"""Most files stay under 300; past this one a file holds more than one noun."""

FUNCTION_LINES = 60
"""A function fits a screen."""

DOCSTRING_LINES = 12
"""What a module owns and what not; more belongs into docs."""

MAY_SLEEP = {"connector/kafka/warden.py", "connector/kafka/broker_record.py"}
"""They watch processes that are not their children, for which systems have no wait."""

CLOCKS = {"sql/run/clock.py"}

CLIENT_LIBRARIES = {
    "confluent_kafka": (
        "connector/kafka/admin.py",
        "connector/kafka/client.py",
        "connector/kafka/consumer.py",
        "connector/kafka/group.py",
        "connector/kafka/sink/client.py",
        "connector/kafka/topics.py",
    )
}

SPARK_FOLDERS = (
    "connector/spark/",
    "connector/delta/",
    "connector/kafka/sink/",
    "sql/maintain/",
    "sql/plan/",
    "sql/run/",
    "sql/serve/",
    "sql/testing/",
)


def name_of(path: Path) -> str:
    """The module's path inside the package, for messages and lists."""
    return path.relative_to(PACKAGE).as_posix()


def parsed(path: Path) -> ast.Module:
    """The module's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(tree: ast.Module) -> set[str]:
    """Top-level packages a module imports when it runs, not those it names for type checkers alone."""
    found: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
        todo.extend(ast.iter_child_nodes(node))
    return found


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function below its signature, which in commands is a list of options."""
    assert function.end_lineno is not None, "parsed from a file"
    return function.end_lineno - function.body[0].lineno + 1


each_module = pytest.mark.parametrize("path", MODULES, ids=name_of)


@each_module
def test_a_module_says_what_it_owns(path: Path) -> None:
    """Every module opens with a short docstring."""
    docstring = ast.get_docstring(parsed(path))

    assert docstring, "no docstring"
    assert len(docstring.splitlines()) <= DOCSTRING_LINES


@each_module
def test_a_module_holds_one_noun(path: Path) -> None:
    """Files and functions keep to a size that can be read in one go."""
    tree = parsed(path)
    long = [
        f"{node.name} ({body_lines(node)} lines)"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and body_lines(node) > FUNCTION_LINES
    ]

    assert len(path.read_text(encoding="utf-8").splitlines()) <= MODULE_LINES
    assert long == []
    assert path.stem not in {"utils", "util", "helpers", "misc", "common"}


@each_module
def test_nothing_is_left_for_later_or_printed(path: Path) -> None:
    """No notes to oneself, no print, no sleep, no clock outside its place."""
    text = path.read_text(encoding="utf-8")
    banned = {r"\b(TODO|FIXME|XXX|HACK)\b": True, r"^\s*print\(": True}
    banned[r"\btime\.sleep\(|\bimport sleep\b"] = name_of(path) not in MAY_SLEEP
    banned[r"\btime\.time\(|\bdatetime\.(now|utcnow)\("] = name_of(path) not in CLOCKS
    found = [
        pattern
        for pattern, applies in banned.items()
        if applies and re.search(pattern, text, re.MULTILINE)
    ]

    assert found == []


@each_module
def test_only_the_edges_know_engines_and_clients(path: Path) -> None:
    """A client library has one module, Spark four folders; the source runtime knows no clock either."""
    name, packages = name_of(path), imported(parsed(path))
    for library, places in CLIENT_LIBRARIES.items():
        assert library not in packages or name in places
    assert "pyspark" not in packages or name.startswith(SPARK_FOLDERS)
    if name.startswith("connector/source/"):
        assert not packages & {"pyspark", "confluent_kafka", "time", "random"}


def test_the_java_check_runs_before_anything_is_installed() -> None:
    """`make` asks for Java with whatever Python it finds: that module needs the standard library alone."""
    command = [sys.executable, "-S", "-c", "import penstock.connector.java"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.stderr == ""
