"""A version of each definition, the history of changes, secrets; and Alembic in place of a table of our own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

DEFINED = ("penstock_objects", "penstock_functions", "penstock_catalogs", "penstock_databases")


def upgrade() -> None:
    """Number what there is, make the new tables, and mark the store for those that know only its old versions."""
    for table in DEFINED:
        op.add_column(
            table, sa.Column("version", sa.BigInteger, nullable=False, server_default="1")
        )
    _create_history()
    op.create_table(
        "penstock_secrets",
        sa.Column("secret_name", sa.String(255), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("key_id", sa.String(64), nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("changed_ms", sa.BigInteger, nullable=False),
    )
    _mark_for_older_ones()


def _create_history() -> None:
    op.create_table(
        "penstock_history",
        sa.Column(
            "change_id",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column("catalog_name", sa.String(255), nullable=False),
        sa.Column("database_name", sa.String(255), nullable=False),
        sa.Column("object_name", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("changed_ms", sa.BigInteger, nullable=False),
        sa.Column("changed_by", sa.String(512), nullable=False),
        sa.Column("process", sa.BigInteger, nullable=False),
        sa.Column("before", sa.Text, nullable=True),
        sa.Column("after", sa.Text, nullable=True),
        sa.Column("to_catalog", sa.String(255), nullable=True),
        sa.Column("to_database", sa.String(255), nullable=True),
        sa.Column("to_object", sa.String(255), nullable=True),
        sa.UniqueConstraint(
            "catalog_name",
            "database_name",
            "object_name",
            "kind",
            "version",
            name="penstock_history_version",
        ),
    )
    op.create_index(
        "penstock_history_to", "penstock_history", ["to_catalog", "to_database", "to_object"]
    )


def _mark_for_older_ones() -> None:
    table = sa.table("penstock_schema_version", sa.column("version", sa.Integer))
    if not sa.inspect(op.get_bind()).has_table(table.name):
        op.create_table(
            table.name, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False)
        )
    op.execute(sa.insert(table).values(version=4))
