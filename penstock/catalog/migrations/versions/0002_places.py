"""Catalogs and databases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the tables of places."""
    op.create_table(
        "penstock_catalogs",
        sa.Column("catalog_name", sa.String(255), primary_key=True),
        sa.Column("definition", sa.Text, nullable=False),
    )
    op.create_table(
        "penstock_databases",
        sa.Column("catalog_name", sa.String(255), primary_key=True),
        sa.Column("database_name", sa.String(255), primary_key=True),
        sa.Column("definition", sa.Text, nullable=False),
    )
