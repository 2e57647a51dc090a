"""`penstock catalog upgrade`: brings the tables of a catalog's store up to date, after it has said who uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from penstock.catalog.errors import ConfigError
from penstock.sql.cli.catalog import open_catalog
from penstock.sql.cli.options import (
    CatalogOption,
    FormatOption,
    TargetOption,
    VerboseOption,
    YesOption,
)
from penstock.sql.cli.report import OutputFormat, print_json, reporting, say

if TYPE_CHECKING:
    from penstock.catalog.lease import Claim

__all__ = ["upgrade"]


def upgrade(
    context: typer.Context,
    yes: YesOption = False,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """Bring the catalog's store up to date, which on a server nothing else does. Example: `penstock catalog upgrade`"""
    from penstock.catalog.migrations import HEAD, MIN_READER

    with reporting(context, verbose=verbose, output=output):
        store = open_catalog(catalog, target=target)
        before = store.version()
        claims = store.claims()
        outdated = before < HEAD
        if outdated:
            say(
                f"the catalog {store.location} is of version {before}; this Penstock makes it {HEAD}"
            )
            for line in _consequences(claims, goes_on=before >= MIN_READER):
                say(line)
            if not yes:
                raise ConfigError("nothing was upgraded", hint="add --yes to do it")
            store.upgrade()
        after = store.version()
        if output is OutputFormat.JSON:
            pipelines = [claim.lease.pipeline for claim in claims]
            print_json({"before": before, "after": after, "running": pipelines})
        else:
            say(
                f"the catalog {store.location} is of version {after}, nothing is to be done"
                if not outdated
                else f"upgraded the catalog to version {after}"
            )


def _consequences(claims: list[Claim], *, goes_on: bool) -> list[str]:
    """Name who runs, and what the upgrade means for them."""
    from penstock.catalog.migrations import MIN_READER

    lines = [
        f"  {claim.lease.pipeline}, process {claim.lease.owner.pid} on host {claim.lease.owner.host}"
        for claim in claims
    ]
    if not lines:
        lines = ["no pipeline runs"]
    elif goes_on:
        lines.insert(0, "these pipelines run, and go on:")
    else:
        lines.insert(
            0, "these pipelines run; those of an older Penstock would stop within a minute:"
        )
    return [
        *lines,
        f"from then on it is for Penstock whose catalogs are of version {MIN_READER} and later",
    ]
