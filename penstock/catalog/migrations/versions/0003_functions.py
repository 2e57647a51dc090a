"""Functions, and requests to stop a run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make their tables."""
    op.create_table(
        "penstock_functions",
        sa.Column("catalog_name", sa.String(255), primary_key=True),
        sa.Column("database_name", sa.String(255), primary_key=True),
        sa.Column("function_name", sa.String(255), primary_key=True),
        sa.Column("definition", sa.Text, nullable=False),
    )
    op.create_table(
        "penstock_stop_requests",
        sa.Column("pipeline", sa.String(512), primary_key=True),
        sa.Column("fence", sa.BigInteger, nullable=False),
    )
