"""Reads test files: YAML to cases. What is wrong is a ConfigError with its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.catalog.errors import ConfigError, InputError, InputErrors
from penstock.sql.testing.cases import (
    Case,
    Expectation,
    ExpectedError,
    ExpectedRow,
    ExpectedTable,
    Step,
    TestFile,
    ThenBlock,
)
from penstock.sql.testing.input_rows import read_input_tables
from penstock.sql.testing.yaml_nodes import YamlNode, read_yaml

PATTERNS = ("*_test.yaml", "*_test.yml", "test_*.yaml", "test_*.yml")
"""The names of test files."""

_SHARED = ("files", "variables", "settings", "target", "now", "ends", "goes_idle")
_FILE_KEYS = (*_SHARED, "cases")
_CASE_KEYS = ("name", *_SHARED, "given", "steps", "then", "error")
_KINDS = ("+I", "-U", "+U", "-D")


def find_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Find test files: those named, and in folders those with the names of test files. Raises ConfigError."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = {file for pattern in PATTERNS for file in path.rglob(pattern)}
            found += sorted(file for file in inside if not _is_hidden(file.relative_to(path)))
        elif path.is_file():
            found.append(path)
        else:
            raise ConfigError(f"there is no file or folder {path}")
    return tuple(dict.fromkeys(found))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts[:-1])


def load_files(paths: Iterable[Path]) -> tuple[TestFile, ...]:
    """Read test files. Raises InputErrors with what is wrong in each."""
    files: list[TestFile] = []
    errors: list[InputError] = []
    for path in paths:
        try:
            files.append(read_test_file(path))
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors) if len(errors) > 1 else errors[0]
    return tuple(files)


def read_test_file(path: Path) -> TestFile:
    """Read one test file. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    root = read_yaml(text, str(path))
    if root is None:
        raise ConfigError(f"{path} is empty", hint="a test file has `files:` and `cases:`")
    fields = root.fields("a test file", _FILE_KEYS)
    if "cases" not in fields:
        raise root.error("a test file needs the key `cases`, a list of cases")
    shared = {name: node for name, node in fields.items() if name != "cases"}
    cases = [_case(node, shared, path, text) for node in fields["cases"].elements("`cases`")]
    _check_names(cases)
    return TestFile(path=path, name=str(path), text=text, cases=tuple(cases))


def _check_names(cases: list[Case]) -> None:
    seen: set[str] = set()
    for case in cases:
        if case.name in seen:
            raise ConfigError(f"two cases are called {case.name!r}", span=case.span)
        seen.add(case.name)


def _case(node: YamlNode, shared: Mapping[str, YamlNode], path: Path, text: str) -> Case:
    own = node.fields("a case", _CASE_KEYS)
    if "name" not in own:
        raise node.error("a case needs a `name`")
    if "given" in own and "steps" in own:
        raise own["steps"].error(
            "a case has `given` or `steps`, not both", hint="make what is given the first step"
        )
    if "then" in own and "error" in own:
        raise own["error"].error("a case expects `then` or an `error`, not both")
    all_ = {**shared, **own}
    if "files" not in all_:
        raise node.error(
            "nothing says which SQL the case tests", hint="add `files: [pipeline.sql]` at the top"
        )
    return Case(
        name=own["name"].text("`name`"),
        files=tuple(_files(all_["files"], path)),
        variables={**_mapping("variables", shared), **_mapping("variables", own)},
        settings={k: _text(v) for k, v in _mappings("settings", shared, own).items()},
        target=all_["target"].text("`target`") if "target" in all_ else None,
        now=all_["now"].text("`now`") if "now" in all_ else None,
        ends=all_["ends"].flag("`ends`") if "ends" in all_ else None,
        goes_idle="goes_idle" in all_ and all_["goes_idle"].flag("`goes_idle`"),
        steps=_steps(own, path.parent),
        then=_expectation(own["then"]) if "then" in own else None,
        error=_error(own["error"]) if "error" in own else None,
        block=_block(node, own.get("then"), text),
        span=own["name"].span,
    )


def _files(node: YamlNode, path: Path) -> Iterable[Path]:
    """Return the SQL files, relative to the test file."""
    for each in node.elements("`files`") if node.is_sequence else [node]:
        found = path.parent / each.text("a file")
        if not found.is_file():
            raise each.error(
                f"there is no file {found}", hint="paths are relative to the test file"
            )
        yield found


def _mapping(key: str, fields: Mapping[str, YamlNode]) -> dict[str, Any]:
    if key not in fields:
        return {}
    return {name: node.value() for name, _, node in fields[key].items(f"`{key}`")}


def _mappings(key: str, *levels: Mapping[str, YamlNode]) -> dict[str, Any]:
    return {name: value for level in levels for name, value in _mapping(key, level).items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _steps(own: Mapping[str, YamlNode], folder: Path) -> tuple[Step, ...]:
    if "steps" in own:
        return tuple(read_input_tables(step, folder) for step in own["steps"].elements("`steps`"))
    return (read_input_tables(own["given"], folder),) if "given" in own else ()


def _expectation(node: YamlNode) -> Expectation:
    found = Expectation()
    tables: list[ExpectedTable] = []
    for name, at, value in node.items("`then`"):
        match name:
            case "$late":
                found = replace(found, late=value.typed("`$late`", int, "a number of rows"))
            case "$bad_records":
                count = value.typed("`$bad_records`", int, "a number of records")
                found = replace(found, bad_records=count)
            case "$watermark":
                text = "none" if value.is_null else value.text("`$watermark`")
                found = replace(found, watermark=text)
            case "$dead_letters":
                letters = tuple(map(_row, value.elements("`$dead_letters`")))
                found = replace(found, dead_letters=letters)
            case _ if name.startswith("$"):
                known = "$late, $bad_records, $watermark, $dead_letters"
                raise at.error(
                    f"`then` has no key `{name}`", hint=f"known are: {known}, and tables"
                )
            case _:
                tables.append(_table(name, at, value))
    return replace(found, tables=tuple(tables))


def _table(name: str, at: YamlNode, node: YamlNode) -> ExpectedTable:
    if not node.is_mapping:
        rows = tuple(map(_row, node.elements(f"the rows of {name}")))
        return ExpectedTable(name=name, rows=rows, span=at.span)
    fields = node.fields(f"the table {name}", ("rows", "changes", "ordered"))
    if ("rows" in fields) == ("changes" in fields):
        raise at.error(f"the table {name} needs `rows` or `changes`, one of the two")
    changes = "changes" in fields
    listed = fields["changes"] if changes else fields["rows"]
    rows = tuple(map(_row, listed.elements(f"the rows of {name}")))
    for row in rows if changes else ():
        if row.kind is None:
            raise ConfigError(
                "a change needs its $kind", hint="one of " + ", ".join(_KINDS), span=row.span
            )
    ordered = "ordered" in fields and fields["ordered"].flag("`ordered`")
    return ExpectedTable(name=name, rows=rows, changes=changes, ordered=ordered, span=at.span)


def _row(node: YamlNode) -> ExpectedRow:
    cells: dict[str, Any] = {}
    kind = None
    for name, _, value in node.items("a row"):
        if name == "$kind":
            kind = value.text("`$kind`")
            if kind not in _KINDS:
                raise value.error(f"{kind!r} is no kind of row", hint="one of " + ", ".join(_KINDS))
        else:
            cells[name] = value.value()
    return ExpectedRow(cells=cells, kind=kind, span=node.span)


def _error(node: YamlNode) -> ExpectedError:
    if node.is_mapping:
        fields = node.fields("`error`", ("code", "message"))
        code, message = (
            fields[key].text(f"`{key}`") if key in fields else None for key in ("code", "message")
        )
        if code is None and message is None:
            raise node.error("`error` needs a `code` or a `message`")
        return ExpectedError(code=code, message=message, span=node.span)
    text = node.text("`error`")
    is_code = text.startswith("PEN-")
    return ExpectedError(
        code=text if is_code else None, message=None if is_code else text, span=node.span
    )


def _block(case: YamlNode, then: YamlNode | None, text: str) -> ThenBlock:
    """Find the text of `then`, or where it would stand."""
    if then is not None:
        start, end = then.node.start_mark, then.node.end_mark
        return ThenBlock(
            start=start.index,
            end=_trimmed(text, start.index, end.index),
            indent=_indent(case),
            exists=True,
        )
    start, end = case.node.start_mark, case.node.end_mark
    position = _trimmed(text, start.index, end.index)
    return ThenBlock(start=position, end=position, indent=_indent(case), exists=False)


def _indent(case: YamlNode) -> int:
    return int(case.node.start_mark.column)


def _trimmed(text: str, start: int, end: int) -> int:
    """Return the end without what follows the last value: a block's node reaches to the next one, comments included."""
    lines = text[start:end].splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return start + len("".join(lines).rstrip())
