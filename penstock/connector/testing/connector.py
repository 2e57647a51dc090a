"""The connector `fixture` of `penstock test`: the table's own connector checks it, files and memory replace it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog.model.table import Table
from penstock.catalog.model.types import LogicalType
from penstock.catalog.options.option import BOOLEAN, STRING, Option, resolve
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import (
    Connector,
    FetcherModel,
    ReadRequest,
    Sink,
    Source,
    SourceKind,
    SplitMetadataClient,
    SplitSource,
)
from penstock.connector.options.watermark import WatermarkSettings
from penstock.connector.registry import connector_of
from penstock.connector.source.coordinator.discovery import DiscoveringEnumerator
from penstock.connector.source.enumerator import MakeEnumerator

if TYPE_CHECKING:
    from penstock.connector.testing.reader import FixtureMetadataClient, FixtureReader


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
LOCATION = Option(
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
OPTIONS = (CONNECTOR, FOLDER, LOCATION, ENDS, GOES_IDLE, WRITES)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureSettings:
    """`folder` is where records are, `location` the name that written rows are kept under.

    `ends`: the source is bounded or not, None as the table says. `goes_idle`: its idle timeout passes after each step,
    else never. `writes`: rows go to the table's own sink as well, as other statements read them there.
    """

    folder: str
    location: str
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
        LOCATION.key: settings.location,
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
        location=resolved.get(LOCATION),
        ends=resolved.get(ENDS),
        goes_idle=resolved.get(GOES_IDLE),
        writes=resolved.get(WRITES),
    )
    return real, settings


AT_ONCE_MS = 1
"""An idle timeout that has passed when the next batch is planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureSource(SplitSource):
    """A SplitSource over records in files. `own` is the source of the table's connector, which is never opened."""

    table: Table
    settings: FixtureSettings
    own: SplitSource = field(repr=False)

    @property
    def bounded(self) -> bool:
        """Whether the test says that the table has an end, else whether it has."""
        return self.own.bounded if self.settings.ends is None else self.settings.ends

    @property
    def changes(self) -> ChangelogMode:
        """As the table's own."""
        return self.own.changes

    @property
    def metadata_types(self) -> Mapping[str, LogicalType]:
        """As the table's own."""
        return self.own.metadata_types

    @property
    def skips_bad_records(self) -> bool:
        """As the table's own."""
        return self.own.skips_bad_records

    @property
    def tolerates_loss(self) -> bool:
        """Nothing is lost."""
        return False

    @property
    def watermark(self) -> WatermarkSettings:
        """As the table's own; idle timeouts pass when the test says so, and at no other time."""
        settings = self.own.watermark
        passes = self.settings.goes_idle and settings.idle_timeout_ms is not None
        return replace(settings, idle_timeout_ms=AT_ONCE_MS if passes else None)

    @property
    def fetching(self) -> FetcherModel:
        """One range after the other, so that rows come in the same order each time."""
        return FetcherModel.SEQUENTIAL

    @property
    def max_records_per_batch(self) -> int | None:
        """A step of the test is a batch."""
        return None

    @property
    def parallelism(self) -> int | None:
        """One task, for the order and the speed."""
        return 1

    @property
    def discovery_interval_ms(self) -> int:
        """All splits are there from the start."""
        return -1

    @property
    def enumerator_type(self) -> type[DiscoveringEnumerator]:
        """The class of its enumerators."""
        return DiscoveringEnumerator

    def enumerator(self, planner: SplitMetadataClient) -> MakeEnumerator:
        """Assign the splits to the first reader."""
        return partial(
            DiscoveringEnumerator,
            planner=planner,
            bounded=self.bounded,
            discovery_interval_ms=self.discovery_interval_ms,
        )

    def open_planner(self, peeked: ReadRequest) -> FixtureMetadataClient:
        """Open the driver's side."""
        from penstock.connector.testing.decode import decoder_of
        from penstock.connector.testing.reader import FixtureMetadataClient

        decoder = decoder_of(self.table, self.own, peeked, peeks=True)
        return FixtureMetadataClient(Path(self.settings.folder), decoder)

    def open_reader(self, request: ReadRequest) -> FixtureReader:
        """Open a task's side."""
        from penstock.connector.testing.decode import decoder_of
        from penstock.connector.testing.reader import FixtureReader

        decoder = decoder_of(self.table, self.own, request)
        return FixtureReader(Path(self.settings.folder), decoder, origins=request.origins)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureConnector(Connector):
    """Tables whose outside is replaced (`Connector`); paths in options are relative to `project`."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return "fixture"

    def check(self, table: Table) -> None:
        """Check the table as its own connector does."""
        own, _ = read_fixture(table)
        connector_of(own, project=self.project).check(own)

    def source(self, table: Table) -> Source:
        """Describe the scan; of a table that Spark reads by itself that of its own connector."""
        own, settings = read_fixture(table)
        source = connector_of(own, project=self.project).source(own)
        if source.kind is SourceKind.SPLITS:
            return FixtureSource(table=own, settings=settings, own=source)
        return source

    def sink(self, table: Table) -> Sink:
        """Describe keeping what is written."""
        from penstock.connector.testing.sink import CaptureSink  # Spark, only where it is used

        own, settings = read_fixture(table)
        return CaptureSink(
            table=own,
            location=settings.location,
            own=connector_of(own, project=self.project).sink(own),
            writes=settings.writes,
        )
