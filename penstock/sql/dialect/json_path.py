"""JSON paths written out: mode, steps, and their spelling for Spark's VARIANT functions.

Flink reads them with JsonPath (SqlJsonUtils.jsonApiCommonSyntax): without a mode a path is strict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.dialect.problems import NodeError

__all__ = ["JsonPath", "read_json_path"]

MODE = re.compile(
    r"^\s*(?:(?P<mode>strict|lax)\s+)?(?P<steps>\$.*?)\s*$", re.IGNORECASE | re.DOTALL
)
STEP = re.compile(
    r"""\.?\[\s*(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<index>\d+)|(?P<any>\*))\s*\]"""
    r"""|\.(?P<name>[^.\[\]\s()'"*?@]+)"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPath:
    """`parts` are the paths from $ between the places where every element of an array is meant ([*])."""

    strict: bool
    parts: tuple[str, ...]


def read_json_path(node: exp.Expr) -> JsonPath:
    """The path that a node writes out. Raises NodeError for one that is not, or not in this set."""
    if not node.is_string:
        raise NodeError(
            "a JSON path that is not written out is not supported",
            node,
            "write it as a text: '$.a.b'",
        )
    match = MODE.match(node.name)
    if match is None:
        raise NodeError("a JSON path begins with $", node, "write for instance 'lax $.a[0].b'")
    parts, at, text = ["$"], 1, match["steps"]
    while at < len(text):
        step = STEP.match(text, at)
        if step is None:
            raise NodeError(
                f"'{text[at:]}' in a JSON path is not supported",
                node,
                "steps are .name, ['name'], [0] and [*]",
            )
        if step["any"]:
            parts.append("$")
        else:
            parts[-1] += _spelling(step)
        at = step.end()
    return JsonPath(strict=(match["mode"] or "strict").lower() == "strict", parts=tuple(parts))


def _spelling(step: re.Match[str]) -> str:
    if step["index"] is not None:
        return f"[{step['index']}]"
    name = next(text for text in (step["single"], step["double"], step["name"]) if text is not None)
    if re.fullmatch(r"\w+", name):
        return f".{name}"
    return f"['{name}']" if '"' in name else f'["{name}"]'
