"""Tables that are about to be used: what they refer to is looked at, and secrets are sealed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.catalog import masking
from penstock.catalog.definitions.encryption import (
    check_written_references,
    encrypt_references,
    without_references,
)
from penstock.catalog.errors import OptionError, UnknownObjectError
from penstock.catalog.model.codec import table_from_json, table_to_json
from penstock.catalog.model.table import Table
from penstock.catalog.options.references import reveal
from penstock.catalog.secrets.crypto import KEY_VARIABLE, new_key
from penstock.catalog.store.secrets import SqlSecrets
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.examples import table


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlSecrets:
    """One secret, `s`."""
    monkeypatch.setattr(masking, "_values", set())
    monkeypatch.setenv(KEY_VARIABLE, new_key())
    made = SqlCatalog(f"sqlite:///{tmp_path}/catalog.db").secrets
    made.create("s", "value-of-s")
    return made


def with_password(text: str) -> Table:
    """A table whose password is `text`."""
    return replace(table(), options=(("connector", "kafka"), ("properties.sasl.password", text)))


def test_a_sealed_table_needs_no_catalog(secrets: SqlSecrets) -> None:
    """It travels as JSON; the definition itself keeps the reference, and is shown with it."""
    made = with_password("${secret:s}")
    travelled = table_from_json(table_to_json(encrypt_references(made, secrets)))

    assert reveal(travelled.option_map["properties.sasl.password"], secret=True) == "value-of-s"
    assert "value-of-s" not in str(table_to_json(encrypt_references(made, secrets)))
    assert "${secret:s}" in repr(travelled)
    assert made.option_map["properties.sasl.password"] == "${secret:s}"


def test_a_table_without_references_is_itself(secrets: SqlSecrets) -> None:
    """Nothing is asked for it."""
    made = with_password("plain")

    assert encrypt_references(made, secrets) is made


@pytest.mark.parametrize("text", ["${secret:t}", "${env:PENSTOCK_NOT_THERE}", "${file:/not/there}"])
def test_what_is_missing_is_found_before_anything_starts(secrets: SqlSecrets, text: str) -> None:
    """The error names the table and the option."""
    with pytest.raises(
        UnknownObjectError, match=r"table .*: option 'properties\.sasl\.password': "
    ):
        encrypt_references(with_password(text), secrets)


def test_what_was_looked_at_is_masked(secrets: SqlSecrets, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process hears from the others what went wrong there."""
    monkeypatch.setenv("PENSTOCK_TEST_VALUE", "value-of-env")
    encrypt_references(with_password("${secret:s}-${env:PENSTOCK_TEST_VALUE}"), secrets)

    assert masking.without_secrets("value-of-s value-of-env") == "****** ******"


def test_a_definition_holds_no_encrypted_value(secrets: SqlSecrets) -> None:
    """It would be bound to a key, and to the value of a day."""
    with pytest.raises(OptionError, match="holds an encrypted value"):
        check_written_references(encrypt_references(with_password("${secret:s}"), secrets))
    check_written_references(with_password("${secret:s}"))


def test_a_double_refers_to_nothing(secrets: SqlSecrets) -> None:
    """A test of a pipeline needs none of its secrets; the options are checked as ever."""
    double = without_references(with_password("x ${secret:t} $${a ${env:PENSTOCK_NOT_THERE}"))

    assert encrypt_references(double, secrets) is double
    text = double.option_map["properties.sasl.password"]
    assert reveal(text, secret=True) == "x ${secret:t} ${a ${env:PENSTOCK_NOT_THERE}"
