"""Tables and views, and the leases of running pipelines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the first tables."""
    op.create_table(
        "penstock_objects",
        sa.Column("catalog_name", sa.String(255), primary_key=True),
        sa.Column("database_name", sa.String(255), primary_key=True),
        sa.Column("object_name", sa.String(255), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
    )
    op.create_table(
        "penstock_leases",
        sa.Column("pipeline", sa.String(512), primary_key=True),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("token", sa.String(64), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("boot_id", sa.String(255), nullable=False),
        sa.Column("started", sa.BigInteger, nullable=True),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("heartbeat_ms", sa.BigInteger, nullable=False),
    )
