"""What enumerators' snapshots have in common: the check of kind, version and keys, and splits as JSON values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from penstock.catalog.errors import StateMismatchError
from penstock.connector.source.enumerator import EnumeratorState
from penstock.connector.source.split import Split

__all__ = ["HINT", "check_keys", "check_snapshot", "decode_split", "encode_split"]

HINT = "run the version of Penstock that wrote the checkpoint, or start anew with another pipeline.name"


def check_snapshot(
    state: EnumeratorState, *, kind: str, version: int, keys: Collection[str]
) -> None:
    """Refuse a snapshot of another kind of enumerator, of a version or with keys that are not known here.

    `keys` are those besides `kind` and `version`. Raises StateMismatchError.
    """
    if state.get("kind") != kind:
        raise StateMismatchError(
            f"the checkpoint is of a source with a {state.get('kind')!r} enumerator, this table has a {kind!r} one",
            hint="a table that is read in another way needs another pipeline.name",
        )
    if state.get("version") != version:
        raise StateMismatchError(
            f"the checkpoint holds a {kind!r} enumerator of version {state.get('version')!r}, "
            f"this Penstock reads {version}",
            hint=HINT,
        )
    check_keys(state, {"kind", "version", *keys}, f"a {kind!r} enumerator")


def check_keys(state: Mapping[str, Any], keys: Collection[str], what: str) -> None:
    """Refuse a state that has other keys than these. Raises StateMismatchError."""
    wrong = sorted(set(state) ^ set(keys))
    if wrong:
        raise StateMismatchError(
            f"the checkpoint of {what} does not fit: unknown or missing {', '.join(wrong)}",
            hint=HINT,
        )


def encode_split(split: Split) -> dict[str, Any]:
    """Write a split as JSON values: what every split has, not what connectors add."""
    return {"id": split.split_id, "start": split.start, "stop": split.stop, "owner": split.owner}


def decode_split(value: Mapping[str, Any]) -> Split:
    """Read what `encode_split` wrote; `SplitPlanner.split` makes the connector's own of it."""
    return Split(
        split_id=value["id"], start=value["start"], stop=value["stop"], owner=value["owner"]
    )
