"""The options of a fixture: what a table's own connector is, and where its records are. Set by `penstock test`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.catalog.model.table import Table
from penstock.catalog.options.option import BOOLEAN, STRING, Option, resolve

__all__ = ["FixtureSettings", "as_fixture", "read_fixture"]

PREFIX = "fixture."
CONNECTOR = Option(
    key=f"{PREFIX}connector",
    type=STRING,
    default="",
    doc="the table's own connector",
    required=True,
)
FOLDER = Option(
    key=f"{PREFIX}folder", type=STRING, default="", doc="the folder of its records", required=True
)
PLACE = Option(
    key=f"{PREFIX}place",
    type=STRING,
    default="",
    doc="the name that written rows are kept under",
    required=True,
)
ENDS: Option[bool | None] = Option(
    key=f"{PREFIX}ends",
    type=BOOLEAN,
    default=None,
    doc="whether the last record is the end; default as the table's options say",
)
GOES_IDLE = Option(
    key=f"{PREFIX}goes-idle",
    type=BOOLEAN,
    default=False,
    doc="whether the time of scan.watermark.idle-timeout passes after each step",
)
WRITES = Option(
    key=f"{PREFIX}writes",
    type=BOOLEAN,
    default=False,
    doc="whether rows go to the table's own connector, too",
)
OPTIONS = (CONNECTOR, FOLDER, PLACE, ENDS, GOES_IDLE, WRITES)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureSettings:
    """`folder` is where records are, `place` the name that written rows are kept under.

    `ends`: the source is bounded or not, None as the table says. `goes_idle`: its idle timeout passes after each step,
    else never. `writes`: rows go to the table's own sink as well, as other statements read them there.
    """

    folder: str
    place: str
    ends: bool | None = None
    goes_idle: bool = False
    writes: bool = False


def as_fixture(table: Table, settings: FixtureSettings) -> Table:
    """Return the table with a fixture in the place of its connector; all else stays."""
    options = {key: value for key, value in table.options if key != "connector"}
    marks = {
        "connector": "fixture",
        CONNECTOR.key: table.connector or "",
        FOLDER.key: settings.folder,
        PLACE.key: settings.place,
        **({} if settings.ends is None else {ENDS.key: str(settings.ends).lower()}),
        GOES_IDLE.key: str(settings.goes_idle).lower(),
        WRITES.key: str(settings.writes).lower(),
    }
    return replace(table, options=tuple((marks | options).items()))


def read_fixture(table: Table) -> tuple[Table, FixtureSettings]:
    """Return the table as it was, and what `as_fixture` was told. Raises OptionError."""
    own = {key: value for key, value in table.options if key.startswith(PREFIX)}
    resolved = resolve(own, OPTIONS, owner=f"table {table.identifier}")
    options = {
        key: value
        for key, value in table.options
        if key != "connector" and not key.startswith(PREFIX)
    }
    connector = resolved.get(CONNECTOR)
    real = replace(table, options=(("connector", connector), *options.items()))
    settings = FixtureSettings(
        folder=resolved.get(FOLDER),
        place=resolved.get(PLACE),
        ends=resolved.get(ENDS),
        goes_idle=resolved.get(GOES_IDLE),
        writes=resolved.get(WRITES),
    )
    return real, settings
