"""The store's tables, which version a store has, and how an older one is brought up to date, by Alembic.

`upgrade` imports Alembic, which takes half as long to load as SQLAlchemy: where an older store is brought up to date,
and only there.
"""

from __future__ import annotations

from penstock.catalog.migrations.tables import (
    CATALOGS,
    DATABASES,
    FUNCTIONS,
    FUNCTIONS_SINCE,
    HEAD,
    HISTORY,
    JOB_STATES,
    JOB_STATES_SINCE,
    LEASES,
    LEASES_SINCE,
    LEFT_OUT_SINCE,
    MIN_READER,
    NAMESPACES_SINCE,
    OBJECTS,
    SECRETS,
    SECRETS_SINCE,
    SENTENCE_SINCE,
    STEPS_SINCE,
    STOP_REQUESTS,
    STOP_REQUESTS_SINCE,
    VERSIONS_SINCE,
    create_store,
    version_of,
)

__all__ = [
    "CATALOGS",
    "DATABASES",
    "FUNCTIONS",
    "FUNCTIONS_SINCE",
    "HEAD",
    "HISTORY",
    "JOB_STATES",
    "JOB_STATES_SINCE",
    "LEASES",
    "LEASES_SINCE",
    "LEFT_OUT_SINCE",
    "MIN_READER",
    "NAMESPACES_SINCE",
    "OBJECTS",
    "SECRETS",
    "SECRETS_SINCE",
    "SENTENCE_SINCE",
    "STEPS_SINCE",
    "STOP_REQUESTS",
    "STOP_REQUESTS_SINCE",
    "VERSIONS_SINCE",
    "create_store",
    "version_of",
]
