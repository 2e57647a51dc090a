"""The sentence in the job reports of runners: what a job does, or why nothing comes out of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column. A Penstock of version 6 writes rows without it."""
    op.add_column("penstock_job_states", sa.Column("sentence", sa.Text, nullable=True))
