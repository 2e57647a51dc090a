"""Late rows and bad records in the job reports of runners."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the columns. A Penstock of version 5 writes rows without them."""
    op.add_column("penstock_job_states", sa.Column("late_rows", sa.BigInteger, nullable=True))
    op.add_column("penstock_job_states", sa.Column("bad_records", sa.BigInteger, nullable=True))
