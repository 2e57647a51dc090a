"""The keys of a topic's records as columns: `key.format`, `key.fields`, and how they stand beside the value's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn, PrimaryKey
from penstock.catalog.options.option import resolve
from penstock.connector.formats.json.options import json_options, json_settings
from penstock.connector.inference.inferred_table import InferredColumn, free_name
from penstock.connector.inference.records import InferredRecords
from penstock.connector.inference.sample import Sample, parse_json
from penstock.connector.inference.value_types import STRING, FieldSeen, infer_fields

_MOST = 0.9
_LIST_SEPARATOR = ";"
_NUMBERS: dict[int, t.LogicalType] = {4: t.IntType(), 8: t.BigIntType()}
"""What Kafka's serializers for numbers write, by bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredKey:
    """What keys say. `columns` are those of key and value together, the key's first where the value lacks them."""

    columns: tuple[InferredColumn, ...]
    options: tuple[tuple[str, str], ...] = ()
    primary_key: PrimaryKey | None = None
    remarks: tuple[str, ...] = field(default=())


def infer_key(sample: Sample, value: InferredRecords) -> InferredKey:
    """Infer from the keys of all records; `value` is what was found of their values."""
    keys = sample.keys
    there = [key for key in keys if key is not None]
    unkeyed = InferredKey(columns=value.columns, primary_key=value.primary_key)
    if not there:
        return unkeyed
    some = f"{len(keys) - len(there):,} of {len(keys):,} records have no key."
    remarks = (some,) if len(there) < len(keys) else ()
    objects = _objects(there)
    if len(objects) >= len(there) * _MOST:
        found = _of_changes(objects, value) if value.format not in {"json", "raw"} else None
        found = found or _of_objects(objects, value)
    elif value.format in {"json", "raw"}:
        found = _whole(there, value, _twins(sample, value))
    else:
        found = unkeyed
    return replace(found, remarks=(*found.remarks, *remarks))


def _objects(keys: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the keys that are JSON objects with fields."""
    found = []
    for key in keys:
        try:
            parsed = parse_json(key)
        except ValueError:
            continue
        if isinstance(parsed, dict) and parsed:
            found.append(parsed)
    return found


def _of_changes(objects: Sequence[dict[str, Any]], value: InferredRecords) -> InferredKey | None:
    """The key of a change names the row: it is the PRIMARY KEY, and the row holds its columns."""
    inside = [
        each["payload"] if isinstance(each.get("payload"), dict) else each for each in objects
    ]
    names = list(dict.fromkeys(name for each in inside for name in each))
    known = {each.column.name for each in value.columns}
    if not names or not set(names) <= known:
        return InferredKey(columns=value.columns, primary_key=value.primary_key)
    key = PrimaryKey(columns=tuple(names))
    remark = f"The records' keys are {', '.join(names)}: the primary key of the rows."
    return InferredKey(columns=value.columns, primary_key=key, remarks=(remark,))


def _of_objects(objects: Sequence[dict[str, Any]], value: InferredRecords) -> InferredKey:
    fields, notes = _fields(objects, value)
    held = {each.column.name: each for each in value.columns}
    names = [each.name for each in fields]
    if set(names) <= held.keys() and _same_types(fields, value):
        options = (("key.format", "json"), ("key.fields", _LIST_SEPARATOR.join(names)))
        return InferredKey(
            columns=value.columns, options=(*options, *_standard(value)), remarks=notes
        )
    prefix = "key_" if {name.lower() for name in names} & {n.lower() for n in held} else ""
    columns = [
        InferredColumn(
            column=PhysicalColumn(name=prefix + each.name, type=each.decided.type),
            remark=f"of the key: {each.decided.reason}; {each.presence}",
        )
        for each in fields
    ]
    key_options = [
        ("key.format", "json"),
        ("key.fields", _LIST_SEPARATOR.join(each.column.name for each in columns)),
        *([("key.fields-prefix", prefix)] if prefix else []),
        ("value.fields-include", "EXCEPT_KEY"),
        *_standard(value),
    ]
    return InferredKey(
        columns=(*columns, *value.columns), options=tuple(key_options), remarks=notes
    )


def _fields(
    objects: Sequence[dict[str, Any]], value: InferredRecords
) -> tuple[list[FieldSeen], tuple[str, ...]]:
    resolved = resolve(dict(_timestamp_option(value, "")), json_options(""), owner="discovery")
    return infer_fields(objects, json_settings(resolved, "").standard)


def _same_types(fields: Sequence[FieldSeen], value: InferredRecords) -> bool:
    """Return whether each of the key's columns, filled from the value as Flink does, takes what the key holds."""
    held = dict(value.fields)
    return all(held[each.name] == each.decided.type for each in fields)


def _standard(value: InferredRecords) -> tuple[tuple[str, str], ...]:
    return _timestamp_option(value, "key.")


def _timestamp_option(value: InferredRecords, prefix: str) -> tuple[tuple[str, str], ...]:
    key = "json.timestamp-format.standard"
    chosen = dict(value.options).get(key)
    return () if chosen is None else ((f"{prefix}{key}", chosen),)


# --- keys without fields ---


def _whole(keys: Sequence[bytes], value: InferredRecords, twins: Sequence[str]) -> InferredKey:
    """A key that is one text, number or piece of bytes: a column of the format `raw`.

    `twins` are columns of the value that hold the same; one that is a STRING is the key's column too.
    """
    kind, reason = _kind(keys)
    texts = [name for name in twins if dict(value.fields)[name] == kind]
    if texts:
        return InferredKey(
            columns=value.columns,
            options=(("key.format", "raw"), ("key.fields", texts[0])),
            remarks=(f"The records' keys are {texts[0]}, which the values hold too.",),
        )
    name = free_name("record_key", [each.column.name for each in value.columns])
    column = InferredColumn(
        column=PhysicalColumn(name=name, type=kind), remark=f"of the key: {reason}"
    )
    same = f"{name} holds the same as {', '.join(twins)}: leave the key out if nothing needs it."
    return InferredKey(
        columns=(column, *value.columns),
        options=(
            ("key.format", "raw"),
            ("key.fields", name),
            ("value.fields-include", "EXCEPT_KEY"),
        ),
        remarks=(same,) if twins else (),
    )


def _kind(keys: Sequence[bytes]) -> tuple[t.LogicalType, str]:
    sizes = {len(key) for key in keys}
    texts = sum(_is_text(key) for key in keys)
    if texts == len(keys):
        longest = max(sizes)
        return STRING, f"{len(set(keys)):,} texts of up to {longest:,} bytes"
    if len(sizes) == 1 and next(iter(sizes)) in _NUMBERS:
        size = next(iter(sizes))
        return _NUMBERS[size], f"{size} bytes, as Kafka's serializers write numbers"
    return t.VarBinaryType(length=t.MAX_LENGTH), "bytes that are no text"


def _is_text(key: bytes) -> bool:
    try:
        return key.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _twins(sample: Sample, value: InferredRecords) -> list[str]:
    """Return the columns of the value that hold, in every record, what its key is."""
    names = [name for name, _ in value.fields]
    seen = False
    for split in sample.splits:
        for key, held in zip(split.keys, split.values, strict=True):
            found = _objects([held]) if held else []
            if not found:
                continue
            seen = True
            text = key.decode("utf-8", "replace") if key is not None else None
            names = [name for name in names if _as_text(found[0].get(name)) == text]
    return names if seen else []


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)
