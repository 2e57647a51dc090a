"""Job reports of runners; and the store's version apart from the lowest version that may read it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

LOWEST_READER = "penstock_alembic_version"


def upgrade() -> None:
    """Make the tables. A Penstock of version 4 still works with the store: its number stays where
    that version reads it.
    """
    op.create_table(
        "penstock_job_states",
        sa.Column("pipeline", sa.String(512), primary_key=True),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("restarts", sa.BigInteger, nullable=False),
        sa.Column("last_error", sa.Text, nullable=True),
        sa.Column("waiting_for", sa.Text, nullable=True),
        sa.Column("waiting_since_ms", sa.BigInteger, nullable=True),
        sa.Column("changed_ms", sa.BigInteger, nullable=False),
    )
    if not sa.inspect(op.get_bind()).has_table(LOWEST_READER):
        op.create_table(LOWEST_READER, sa.Column("version_num", sa.String(32), primary_key=True))
