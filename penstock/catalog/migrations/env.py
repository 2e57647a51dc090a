"""The Alembic environment: migrates on the connection, and within the transaction, of `upgrade.py`."""

from __future__ import annotations

from alembic import context

from penstock.catalog.migrations.tables import STEP


def run() -> None:
    """Apply the steps that Alembic was asked for."""
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, version_table=STEP.name)
    context.run_migrations()


# Alembic executes this file; whoever else imports it gets the function alone
if hasattr(context, "config"):
    run()
