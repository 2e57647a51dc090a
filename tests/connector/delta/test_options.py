"""The options of a Delta table and where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import OptionError
from penstock.connector.delta.connector import DeltaConnector
from penstock.connector.delta.options import (
    MAX_FILES,
    STARTING_VERSION,
    resolve_options,
    table_properties,
)
from tests.connector.delta.tables import delta_table

PROJECT = Path("/projects/shop")


def test_a_table_needs_a_path() -> None:
    """And one that names something."""
    for table in (delta_table(""), delta_table("  ")):
        with pytest.raises(OptionError, match="'path' is empty"):
            resolve_options(table)


def test_properties_keep_their_names() -> None:
    """Whatever begins with `delta.` is Delta's."""
    options = resolve_options(delta_table(options={"delta.appendOnly": "true"}))

    assert table_properties(options) == {"delta.appendOnly": "true"}


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    """As with every connector."""
    with pytest.raises(OptionError) as caught:
        resolve_options(delta_table(options={"scan.starting-versoin": "3"}))

    assert (caught.value.hint or "").startswith("did you mean 'scan.starting-version'?")


def test_deltas_own_names_of_read_options_are_understood() -> None:
    """They stand in every page about Delta."""
    options = resolve_options(
        delta_table(options={"startingVersion": "3", "maxFilesPerTrigger": "5"})
    )

    assert options.get(STARTING_VERSION) == "3"
    assert options.get(MAX_FILES) == 5


@pytest.mark.parametrize(
    "options",
    [
        {"scan.starting-version": "three"},
        {"scan.starting-version": "-1"},
        {"scan.starting-version": "1", "scan.starting-timestamp": "2026-01-01"},
        {"scan.max-files-per-batch": "0"},
        {"delta.setTransactionRetentionDuration": "interval 1 day"},
        {"delta.settransactionretentionduration": "interval 1 day"},
        {"sink.schema-evolution": "widen"},
        {"sink.target-file-size": "100 kb"},
        {"sink.optimize.interval": "0 s"},
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, str]) -> None:
    """Before a JVM has started; a table that forgets its batches could take one twice."""
    with pytest.raises(OptionError):
        DeltaConnector(project=PROJECT).check(delta_table(options=options))


def test_rows_of_a_table_with_a_key_cannot_stay_for_ever() -> None:
    """An append-only table takes no update."""
    table = delta_table(key=("id",), options={"delta.AppendOnly": "TRUE"})
    with pytest.raises(OptionError, match="PRIMARY KEY"):
        DeltaConnector(project=PROJECT).check(table)
