"""What is defined is there after a reload, on both databases, and SHOW CREATE writes what makes it again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.catalog.definitions.contract import Definition
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.model.function import Function
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.model.table import Table, View
from penstock.sql.ddl.show_create import (
    show_create,
    show_create_catalog,
    show_create_database,
    show_create_function,
)
from penstock.sql.dialect.parser.calls import is_built_in
from penstock.sql.statements.definitions import (
    CreateCatalog,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedTable,
)
from penstock.sql.statements.statement import CreateTable, CreateView
from tests.catalog.conftest import Store
from tests.catalog.definition_strategies import (
    BASE,
    catalogs,
    databases,
    functions,
    materialized_tables,
    tables,
    views,
)
from tests.sql.sql_objects import new_namespace, run

properties = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
EMPTY, WITH_BASE = new_namespace(), new_namespace(BASE)


def made_by(sql: str, namespace: Namespace) -> Definition:
    """What one statement defines; the namespace stays as it is."""
    (statement,) = run(sql, namespace.overlay())
    match statement:
        case CreateTable() | CreateMaterializedTable():
            return statement.table
        case CreateView():
            return statement.view
        case CreateCatalog():
            return statement.catalog
        case CreateDatabase():
            return statement.database
        case CreateFunction():
            return statement.function
    pytest.fail(f"{type(statement).__name__} defines nothing")


@pytest.mark.slow
@properties
@given(tables() | views() | materialized_tables())
def test_a_definition_is_read_and_shown_as_it_was_written(
    store: Store, value: Table | View
) -> None:
    """Columns of every kind, keys, watermarks, comments, partitions, options, queries; names with quotes."""
    kept = replace(value, temporary=False)
    writer, reader = store.open(), store.open()
    writer.create(kept)
    found = reader.get(kept.identifier)
    writer.drop(kept.identifier, kind="view" if isinstance(kept, View) else "table")
    writer.close()
    reader.close()

    assert found == kept
    assert found.version is not None
    assert made_by(show_create(found, redacted=False), WITH_BASE) == kept


@pytest.mark.slow
@settings(properties, max_examples=12)
@given(
    st.one_of(
        functions.filter(lambda one: not is_built_in(one.identifier.name)), databases, catalogs
    )
)
def test_what_tables_live_in_and_functions_are_read_as_they_were_written(
    store: Store, value: Function | DatabaseDescriptor | CatalogDescriptor
) -> None:
    """Options and comments of any text; a catalog is shown as what makes it again."""
    writer, reader = store.open(), store.open()
    match value:
        case Function(identifier=identifier):
            writer.functions.put(value)
            assert reader.functions.listed() == [value]
            assert made_by(show_create_function(value), EMPTY) == value
            writer.functions.remove(identifier)
        case DatabaseDescriptor(catalog=catalog, name=name):
            writer.create_database(value)
            assert reader.database(catalog, name) == value
            assert made_by(show_create_database(value, redacted=False), EMPTY) == value
            writer.drop_database(catalog, name)
        case CatalogDescriptor(name=name):
            writer.create_catalog(value)
            (found,) = (one for one in reader.catalogs() if one.name == name)
            assert found == value
            assert made_by(show_create_catalog(found, redacted=False), EMPTY) == value
            writer.drop_catalog(name)
    writer.close()
    reader.close()
