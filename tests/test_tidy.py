"""The house style as tests: what a linter does not know and a reviewer should not have to say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.house.classes import foreign_assignments, inheritance, names_used_twice, py4j_modules
from tests.house.connectors import modules_with_imports, modules_with_names
from tests.house.modules import MODULE_LINES, Module, penstock

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "penstock"
MODULES = sorted(PACKAGE.rglob("*.py"))

FUNCTION_LINES = 60
"""A function fits a screen."""

DOCSTRING_LINES = 12
"""What a module owns and what not; more belongs into docs."""

MAY_SLEEP = {"connector/jvm/parent_watchdog.py", "connector/kafka/broker/record.py"}
"""They watch processes that are not their children, for which systems have no wait."""

CLOCKS = {"sql/clock.py"}

CLIENT_LIBRARIES = {
    "confluent_kafka": (
        "connector/kafka/client/admin.py",
        "connector/kafka/client/client.py",
        "connector/kafka/client/consumer.py",
        "connector/kafka/client/cut_logs.py",
        "connector/kafka/sink/client.py",
        "connector/kafka/client/topics.py",
    )
}

SPARK_FOLDERS = (
    "connector/dead_letters/",
    "connector/delta/",
    "connector/kafka/sink/",
    "connector/spark/",
    "connector/spark_catalog/",
    "sql/checkpoint/directory.py",
    "sql/errors/spark",
    "sql/execution/",
    "sql/incremental/",
    "sql/jobs/",
    "sql/plan/",
    "sql/publish/",
    "sql/runner/",
    "sql/serve/",
    "sql/session/",
    "sql/spark_process/",
    "sql/testing/",
)

OWN_INHERITANCE = 3
"""Classes of ours in a line of bases, the class itself among them: more is a class cut in pieces for its length."""

# What follows lists exceptions: they may go, and none may be added. `make house` prints the figures.

CONNECTOR_NAMES = {
    "penstock.catalog.model.namespaces": "'jdbc' is a type of catalogs there, and folders hold Delta tables",
    "penstock.connector.dead_letters.table": "defines the tables in which dead letters are kept",
    "penstock.connector.inference.location": "'kafka' and 'delta' are schemes of locations there",
    "penstock.sql.cli.commands.kafka": "the command `penstock kafka`",
}
"""Modules in which a string is the name of a connector, outside of that connector and the registry; and why."""

CONNECTOR_IMPORTS = {
    "penstock.connector.dead_letters.delta_files": "reads dead letters without Spark, by Delta's log",
    "penstock.connector.testing.decode": "decodes the records of a test as the Kafka connector does",
    "penstock.connector.testing.encode": "encodes the rows of a test as a Kafka producer does",
    "penstock.sql.runner.doctor": "asks brokers whether they answer",
    "penstock.sql.cli.commands.infer": "dispatches by kind of location, each inferred by its connector",
    "penstock.sql.cli.commands.kafka": "the command `penstock kafka`",
    "penstock.sql.cli.commands.transactions": "the command `penstock kafka transactions`",
}
"""Modules that import from the folder of a connector that is not theirs; and why."""


OTHER_WORDS = {
    "anew": "fresh, or start over",
    "arrangement": "state table",
    "draft": "overlay of a catalog, pending plan, table that is inferred",
    "drafts": "overlays",
    "leg": "split plan, or side of a join",
    "legs": "plans, or sides",
    "lives": "time to live",
    "tell": "report, notify, signal",
    "tells": "reports",
    "told": "reported, known",
    "touched": "changed",
}
"""Words that names once had, and what Flink, Spark or we say now."""

WORDS_OF_FOLDERS = {
    "catalog/": {"place": "namespace or location", "places": "namespaces"},
    "connector/": {"place": "position, partition or location", "places": "positions"},
    "sql/": {
        "given": "child, input or argument",
        "kept": "state, or what remains",
        "place": "origin (of a node), position or location",
        "places": "positions or locations",
    },
}
"""Such words in folders that have none of them any more."""

NAMES_USED_TWICE = {"Join", "Project", "Scan", "TemporalJoin"}
"""Names of a logical plan's operators, which are Spark's and Calcite's."""


def name_of(path: Path) -> str:
    """The module's path inside the package, for messages and lists."""
    return path.relative_to(PACKAGE).as_posix()


@cache
def text_of(path: Path) -> str:
    """The module's text."""
    return path.read_text(encoding="utf-8")


@cache
def modules() -> dict[Path, Module]:
    """The modules by their files; each is parsed once for all rules."""
    return {module.path: module for module in penstock().modules}


def parsed(path: Path) -> ast.Module:
    """The module's syntax tree."""
    return modules()[path].tree


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
        if not isinstance(node, ast.expr):
            todo.extend(ast.iter_child_nodes(node))
    return found


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function below its signature, which in commands is a list of options."""
    assert function.end_lineno is not None, "parsed from a file"
    return function.end_lineno - function.body[0].lineno + 1


def faults_of(rule: Callable[[Path], Iterable[str]]) -> str:
    """What a rule says against modules, a line each with the module's name in front."""
    return "\n".join(f"{name_of(path)}: {fault}" for path in MODULES for fault in rule(path))


def test_every_module_says_what_it_owns() -> None:
    """Every module opens with a short docstring."""

    def rule(path: Path) -> Iterator[str]:
        docstring = ast.get_docstring(parsed(path))
        if not docstring:
            yield "no docstring"
        elif len(docstring.splitlines()) > DOCSTRING_LINES:
            yield f"a docstring of more than {DOCSTRING_LINES} lines"

    assert faults_of(rule) == ""


def test_every_module_holds_one_noun() -> None:
    """Files and functions keep to a size that can be read in one go."""

    def rule(path: Path) -> Iterator[str]:
        for node in modules()[path].nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = body_lines(node)
                if lines > FUNCTION_LINES:
                    yield f"{node.name} has {lines} lines"
        if len(text_of(path).splitlines()) > MODULE_LINES:
            yield f"more than {MODULE_LINES} lines"
        if path.stem in {"utils", "util", "helpers", "misc", "common"}:
            yield "a name that says nothing"

    assert faults_of(rule) == ""


def test_nothing_is_left_for_later_or_printed() -> None:
    """No notes to oneself, no print, no sleep, no clock outside its place."""
    banned: dict[str, set[str]] = {
        r"\b(TODO|FIXME|XXX|HACK)\b": set(),
        r"^\s*print\(": set(),
        r"\btime\.sleep\(|\bimport sleep\b": MAY_SLEEP,
        r"\btime\.time\(|\bdatetime\.(now|utcnow)\(": CLOCKS,
    }

    def rule(path: Path) -> Iterator[str]:
        for pattern, places in banned.items():
            if name_of(path) not in places and re.search(pattern, text_of(path), re.MULTILINE):
                yield pattern

    assert faults_of(rule) == ""


def named(node: ast.AST) -> str:
    """The name that a node gives to something; empty for one that gives none."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name
        case ast.arg():
            return node.arg
        case ast.Name(ctx=ast.Store()):
            return node.id
        case ast.Attribute(ctx=ast.Store()):
            return node.attr
        case _:
            return ""


def test_names_are_of_one_language() -> None:
    """What has a word of Flink or Spark is named by it, in classes and functions as in locals."""

    def rule(path: Path) -> Iterator[str]:
        folder = name_of(path).partition("/")[0] + "/"
        others = OTHER_WORDS | WORDS_OF_FOLDERS.get(folder, {})
        for name in sorted({named(node) for node in modules()[path].nodes}):
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
            for word in sorted(words & others.keys()):
                yield f"{name}: {others[word]}"

    assert faults_of(rule) == ""


def test_only_the_edges_know_engines_and_clients() -> None:
    """A client library has one folder, Spark those listed; the source runtime knows no clock either."""

    def rule(path: Path) -> Iterator[str]:
        name, packages = name_of(path), imported(parsed(path))
        for library, places in CLIENT_LIBRARIES.items():
            if library in packages and name not in places:
                yield library
        if "pyspark" in packages and not name.startswith(SPARK_FOLDERS):
            yield "pyspark"
        if name.startswith("connector/source/"):
            yield from packages & {"pyspark", "confluent_kafka", "time", "random"}

    assert faults_of(rule) == ""


def test_the_java_check_runs_before_anything_is_installed() -> None:
    """`make` asks for Java with whatever Python it finds: that module needs the standard library alone."""
    command = [sys.executable, "-S", "-c", "import penstock.connector.jvm.java"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.stderr == ""


def test_classes_are_not_cut_into_chains() -> None:
    """Few classes of ours stand in one line of bases."""
    deep = [chain for chain in inheritance(penstock()) if chain.depth > OWN_INHERITANCE]

    assert [f"{chain.classes[0]} {chain.depth}" for chain in deep] == []


def test_one_module_reads_pyspark_s_private_attributes() -> None:
    """By which py4j reaches Java: a release of PySpark may change them."""
    assert py4j_modules(penstock()).keys() == {"penstock.connector.spark.internals"}


def test_classes_of_other_packages_stay_as_they_are() -> None:
    """Nobody else's attribute is assigned: it would hold for everybody in the process."""
    assert foreign_assignments(penstock()) == []


def test_connectors_are_known_by_their_contract() -> None:
    """Their names stand in their folders and the registry, and nobody imports what is in their folders."""
    assert modules_with_names(penstock()).keys() == CONNECTOR_NAMES.keys()
    assert modules_with_imports(penstock()).keys() == CONNECTOR_IMPORTS.keys()


def test_a_class_has_a_name_of_its_own() -> None:
    """No two modules have a class of the same name at their top."""
    assert names_used_twice(penstock()).keys() == NAMES_USED_TWICE


def test_files_that_text_names_are_there() -> None:
    """Docstrings and comments name modules and tests; one that moved takes its name in the text along."""
    files = {
        path.relative_to(ROOT) for path in (*PACKAGE.rglob("*.py"), *ROOT.glob("tests/**/*.py"))
    }
    endings = {"/".join(path.parts[at:]) for path in files for at in range(len(path.parts))}

    def rule(path: Path) -> Iterable[str]:
        named = re.findall(r"(?<![\w./{}<*-])((?:\w+/)*\w+\.py)\b", text_of(path))
        yield from (name for name in named if name not in endings)

    assert faults_of(rule) == ""
