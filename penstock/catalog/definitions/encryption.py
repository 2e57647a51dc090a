"""Tables that are about to be used: their references are looked at, and encrypted values stand beside secrets' names.

A definition keeps `${secret:name}`. A table that is sealed can travel to any process that connects: it needs the key
and not the catalog, and what is missing was found before anything started.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.catalog.errors import InputError, OptionError
from penstock.catalog.masking import keep_secret
from penstock.catalog.model.table import Table
from penstock.catalog.options.redaction import is_secret
from penstock.catalog.options.references import (
    EnvReference,
    FileReference,
    escaped_references,
    holds_reference,
    references_in,
    resolve_reference,
    sealed_text,
)
from penstock.catalog.secrets.crypto import SealedSecret
from penstock.catalog.secrets.store import SecretStore


def check_written_references(table: Table) -> None:
    """Refuse in a definition what only Penstock itself writes: encrypted values. Raises OptionError."""
    for key, text in table.options:
        if holds_reference(text) and any(isinstance(r, SealedSecret) for r in references_in(text)):
            raise OptionError(
                f"table {table.identifier}: option '{key}' holds an encrypted value",
                hint="write ${secret:name}",
            )


def encrypt_references(table: Table, secrets: SecretStore) -> Table:
    """Make a table ready for the processes that connect: encrypted values beside the names of secrets.

    Also checks that the references of its options exist, for this process, and masks their values from now on. May
    block on I/O. Raises UnknownObjectError, ConfigError.
    """
    if not any(holds_reference(text) for _, text in table.options):
        return table
    options = []
    for key, text in table.options:
        try:
            _look(key, text)
            options.append((key, sealed_text(text, secrets.sealed)))
        except InputError as error:
            raise error.within(f"table {table.identifier}: option '{key}'") from None
    return replace(table, options=tuple(options))


def without_references(table: Table) -> Table:
    """Return a table whose references are plain text and are not resolved: for a double that connects to nothing."""
    options = tuple((key, escaped_references(text)) for key, text in table.options)
    return replace(table, options=options)


def _look(key: str, text: str) -> None:
    for reference in references_in(text) if holds_reference(text) else ():
        if isinstance(reference, EnvReference | FileReference):
            value = resolve_reference(reference)
            if is_secret(key):
                keep_secret(value)
