"""The output of `penstock dlq`: counts and dead letters as documents and as lines."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.catalog.model.identifier import short_name
from penstock.sql.cli.output.text import count_text
from penstock.sql.runner.summary import plain

if TYPE_CHECKING:
    from penstock.connector.dead_letters.table import DeadLetterCount


BYTES = ("key", "value")


def counts_document(counted: Sequence[tuple[str, Sequence[DeadLetterCount]]]) -> dict[str, Any]:
    """Return the counts of tables of dead letters, by their paths."""
    return {
        "places": [
            {
                "path": path,
                "letters": sum(count.letters for count in counts),
                "replayed": sum(count.replayed for count in counts),
                "errors": [
                    {
                        "table": count.table,
                        "pipeline": count.pipeline,
                        "stage": count.stage,
                        "error": count.error,
                        "letters": count.letters,
                        "replayed": count.replayed,
                    }
                    for count in counts
                ],
            }
            for path, counts in counted
        ]
    }


def counts_lines(counted: Sequence[tuple[str, Sequence[DeadLetterCount]]]) -> list[str]:
    """Write the counts for people: a line for each place, one below for each kind of error."""
    lines = []
    for path, counts in counted:
        letters = sum(count.letters for count in counts)
        lines.append(f"{path}: {count_text(letters)} dead letter{'' if letters == 1 else 's'}")
        for count in counts:
            replayed = f", {count_text(count.replayed)} replayed" if count.replayed else ""
            lines.append(
                f"  {count_text(count.letters)} of {short_name(count.table)} in {count.pipeline}: {count.stage}: "
                f"{count.error}{replayed}"
            )
    return lines


def letter_document(row: Mapping[str, Any]) -> dict[str, Any]:
    """Write a letter for programs: bytes as text where they are UTF-8, else in base64 by another name; times in UTC."""
    letter: dict[str, Any] = {}
    for name, value in row.items():
        if name in BYTES:
            letter |= _text_or_base64(name, value)
        elif name == "headers":
            letter[name] = [
                {"key": header["key"], **_text_or_base64("value", header["value"])}
                for header in value or ()
            ]
        elif isinstance(value, datetime):
            # Spark gives instants in the zone of this machine, without saying so
            instant = value.astimezone(UTC).isoformat(timespec="milliseconds")
            letter[name] = instant.replace("+00:00", "Z")
        else:
            letter[name] = plain(value)
    return letter


def letter_lines(letter: Mapping[str, Any]) -> list[str]:
    """Write a dead letter for people: its place, the query that left it out and why, then the record."""
    if letter["topic"] is not None:
        position = f"{letter['topic']}, partition {letter['partition']}, offset {letter['offset']}"
    else:
        position = f"{letter['path']}, byte {letter['position']}"
    when = "" if letter["timestamp"] is None else f", of {letter['timestamp']}"
    replayed = ", replayed" if letter["replayed"] else ""
    reader = f", for {short_name(letter['table'])} in {letter['pipeline']}"
    lines = [f"{position}{when}{reader}{replayed}", f"  {letter['stage']}: {letter['error']}"]
    for name in BYTES:
        if letter.get(name) is not None:
            lines.append(f"  {name}: {_one_line(letter[name])}")
        elif f"{name}_base64" in letter:
            lines.append(f"  {name} in base64: {letter[f'{name}_base64']}")
    return lines


def _text_or_base64(name: str, value: bytes | bytearray | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: bytes(value).decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode("ascii")}


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
