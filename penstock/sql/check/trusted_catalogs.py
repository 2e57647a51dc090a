"""Which servers a check connects to: those that the user of the command names, and those that they trust.

A project's files are an author's, and a check is there to inspect them: by the URL of a catalog they could make the
machine log in anywhere, with its PGPASSWORD or `~/.pgpass`. As git does it for folders.
"""

from __future__ import annotations

import os

from penstock.catalog.errors import ConfigError

__all__ = ["TRUSTED_VARIABLE", "check_trusted"]

TRUSTED_VARIABLE = "PENSTOCK_TRUSTED_CATALOGS"
"""URLs of catalogs, separated by blanks, that a check may connect to although a project's file names them; `*`: all."""


def check_trusted(url: str) -> None:
    """Check that a URL which a project's files name is a file's, or is trusted. Raises ConfigError."""
    if url.partition(":")[0].partition("+")[0] == "sqlite":
        return  # a file, for which SQLAlchemy need not be loaded
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        make_url(url)
    except (ArgumentError, ValueError):
        return  # what is no URL is told by who opens it
    shown = _plain(url)
    trusted = os.environ.get(TRUSTED_VARIABLE, "").split()
    if "*" not in trusted and shown not in {_plain(each) for each in trusted}:
        raise ConfigError(
            f"the project names the catalog {shown}, and a check logs in to no server that a project names",
            hint=f"name it by --catalog or PENSTOCK_CATALOG, or, if you trust it: export {TRUSTED_VARIABLE}='{shown}'",
        )


def _plain(text: str) -> str | None:
    """Write a URL without its password, the same way however it was written; None for what is none."""
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        return None
    query = {key: value for key, value in url.query.items() if key != "password"}
    plain = URL.create(
        url.drivername,
        username=url.username,
        host=url.host,
        port=url.port,
        database=url.database,
        query=query,
    )
    return plain.render_as_string()
