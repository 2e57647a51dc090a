"""Which keys clients are told."""

from __future__ import annotations

from penstock.catalog.model.identifier import Identifier
from penstock.sql.publish.text import PublishedName
from penstock.sql.serve.primary_keys import TableKey, changed_keys, primary_keys
from tests.sql.sql_objects import new_namespace

TABLES = """
CREATE DATABASE shop;
CREATE TABLE people (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'delta', 'path' = 'p');
CREATE TABLE shop.Items (n INT, sku STRING, part STRING, CONSTRAINT item_key PRIMARY KEY (sku, part) NOT ENFORCED)
  WITH ('connector' = 'delta', 'path' = 'i');
CREATE TABLE loose (id BIGINT) WITH ('connector' = 'delta', 'path' = 'l');
CREATE VIEW some AS SELECT id FROM people
"""


def identifier(name: str, database: str = "default_database") -> Identifier:
    """A name in the default catalog."""
    return Identifier(catalog="default_catalog", database=database, name=name)


def test_declared_keys_are_told_by_published_names() -> None:
    """In the order of the key, lower case as Hive keeps names; what has been dropped meanwhile is left out."""
    names = {
        identifier("people"): PublishedName(database="default", name="people"),
        identifier("Items", "shop"): PublishedName(database="shop", name="Items"),
        identifier("loose"): PublishedName(database="default", name="loose"),
        identifier("some"): PublishedName(database="default", name="some"),
        identifier("gone"): PublishedName(database="default", name="gone"),
    }

    assert primary_keys(new_namespace(TABLES), names) == {
        TableKey(database="default", table="people", columns=("id",), name="pk_people"),
        TableKey(database="shop", table="items", columns=("sku", "part"), name="item_key"),
    }


def test_a_key_that_has_changed_is_taken_out_and_put_in() -> None:
    """One that is as it was is left alone."""
    same, old, new = (
        TableKey(database="d", table=table, columns=(column,), name="k")
        for table, column in (("a", "x"), ("b", "x"), ("b", "y"))
    )

    assert changed_keys(frozenset({same, old}), frozenset({same, new})) == ([old], [new])
