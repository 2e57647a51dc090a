"""What the package offers: names in `__all__` exist, and importing the package costs nothing heavy."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import penstock
from tests.house.modules import penstock as modules

ROOT = Path(__file__).resolve().parents[1]


EDGES = {"penstock.connector.dead_letters.delta_files", "penstock.connector.kafka.client.client"}
"""Pass on names of a client library, or of a connector's folder, which nobody else imports."""


def test_the_package_offers_one_function_and_its_version() -> None:
    """Everything else hangs on the session."""
    assert penstock.__all__ == ["__version__", "connect"]


def test_importing_the_package_loads_no_engine_and_no_client() -> None:
    """A command that reads the catalog must not wait for Spark; a fork must not inherit a client."""
    heavy = ("pyspark", "confluent_kafka", "pyarrow", "pandas", "duckdb", "sqlglot")
    script = f"import sys, penstock; print([m for m in {heavy!r} if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert run.stdout.strip() == "[]"


def test_every_module_has_what_it_says_it_offers() -> None:
    """Names in `__all__` exist, each once; a folder's `__init__.py` that offers names has one, a module never."""
    wrong = {}
    for source in modules().modules:
        name, module = source.name, importlib.import_module(source.name)
        offers = source.path.name == "__init__.py" and any(
            (isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"))
            or (isinstance(node, ast.ImportFrom) and str(node.module).startswith("penstock."))
            for node in source.tree.body
        )
        offered = getattr(module, "__all__", [])
        lacking = [entry for entry in offered if not hasattr(module, entry)]
        if lacking or len(set(offered)) < len(offered):
            wrong[name] = lacking or "a name twice"
        elif offers and not offered:
            wrong[name] = "no __all__"
        elif offered and not str(module.__file__).endswith("__init__.py") and name not in EDGES:
            wrong[name] = "an __all__: what is not public has an underscore"

    assert wrong == {}


def test_examples_and_benchmarks_import_what_the_package_has() -> None:
    """Also those whose own libraries are not here, and which no other test starts."""
    lacking = []
    for path in sorted([*ROOT.glob("examples/**/*.py"), *ROOT.glob("benchmarks/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("penstock"):
                module = importlib.import_module(str(node.module))
                names = [each.name for each in node.names if not hasattr(module, each.name)]
                lacking += [f"{path.relative_to(ROOT)}: {node.module}.{name}" for name in names]

    assert lacking == []


def test_every_dependency_is_locked_with_hashes_and_no_host() -> None:
    """The lock covers pyproject.toml; where packages come from is the machine's own setting."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = {match.lower() for match in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    asked = {
        re.split(r"[^\w.-]", requirement)[0].lower()
        for requirement in [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    }

    assert asked <= locked
    assert lock.count("--hash=sha256:") > len(locked)
    assert "://" not in lock
    assert "sqlglotc" not in locked
