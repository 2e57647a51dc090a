"""Comments on a view's columns, an addition to Flink's CREATE VIEW: kept, written, dropped with the columns."""

from __future__ import annotations

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import SqlSyntaxError
from penstock.catalog.model.codec import table_from_json, table_to_json
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import View
from penstock.sql.ddl.show_create import show_create
from tests.sql.sql_objects import TABLES, new_namespace, run

PRICES = "CREATE VIEW prices (auction, eur COMMENT 'price, EUR; Bob''s') AS SELECT auction, price FROM bids"


@pytest.fixture
def namespace() -> Namespace:
    """Tables, and a view with a comment on one of its columns."""
    return new_namespace(f"{TABLES};\n{PRICES}")


def view(namespace: Namespace, name: str = "prices") -> View:
    """A view of the default database."""
    identifier = Identifier(catalog="default_catalog", database="default_database", name=name)
    found = namespace.lookup(identifier)
    assert isinstance(found, View)
    return found


def test_comments_are_kept_by_column(namespace: Namespace) -> None:
    """None for a column without one, and through the store."""
    kept = view(namespace)

    assert kept.columns == ("auction", "eur")
    assert kept.column_comments == (None, "price, EUR; Bob's")
    assert table_from_json(table_to_json(kept)) == kept


def test_a_view_without_comments_keeps_none(namespace: Namespace) -> None:
    """Also one that names its columns, and one that an older version has stored."""
    stored = table_to_json(view(namespace, "halves"))
    del stored["column_comments"]

    assert view(namespace, "halves").column_comments == ()
    assert table_from_json(stored) == view(namespace, "halves")


def test_show_create_writes_them_so_that_they_are_read_again(namespace: Namespace) -> None:
    """With quotes as SQL has them."""
    text = show_create(view(namespace))
    run(text.replace("`prices`", "`again`"), namespace)

    assert "(`auction`, `eur` COMMENT 'price, EUR; Bob''s')" in text
    assert view(namespace, "again").column_comments == view(namespace).column_comments


def test_another_query_drops_them_with_the_columns(namespace: Namespace) -> None:
    """ALTER VIEW ... AS gives the view the columns of its query."""
    run("ALTER VIEW prices AS SELECT auction FROM bids", namespace)

    assert (view(namespace).columns, view(namespace).column_comments) == ((), ())


def test_a_comment_has_to_be_a_text(namespace: Namespace) -> None:
    """The place is that of what stands there instead."""
    with pytest.raises(SqlSyntaxError) as caught:
        run("CREATE VIEW v (a COMMENT b) AS SELECT auction FROM bids", namespace)

    assert caught.value.span is not None
    assert caught.value.span.column == 26
