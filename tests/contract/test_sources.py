"""Every split source runs the contract of sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.connector.datagen.connector import DatagenConnector
from penstock.connector.nexmark.connector import NexmarkConnector
from penstock.connector.testing.values import InputRow
from tests.connector.datagen.test_datagen import table_of as datagen_table
from tests.connector.filesystem.tables import file_source, write
from tests.connector.nexmark.test_nexmark import table_of as nexmark_table
from tests.connector.testing.test_fixture import KAFKA, fixture_of
from tests.connector.testing.test_fixture import table_of as fixture_table
from tests.contract.source import SourceContext, SplitSourceContract

if TYPE_CHECKING:
    from tests.kafka_server import KafkaServer

COLUMNS = {"id": "BIGINT", "name": "STRING"}
ROWS = [(1, "a"), (2, "ä"), (3, None), (4, "d")]
LINES = '{"id":1,"name":"a"}\n{"id":2,"name":"ä"}\n{"id":3}\n{"id":4,"name":"d"}\n'


class TestFiles(SplitSourceContract):
    """`filesystem` over two files of JSON lines."""

    @pytest.fixture
    def context(self, tmp_path: Path) -> SourceContext:
        """Positions are bytes."""
        write(tmp_path / "a.json", LINES)
        write(tmp_path / "b.json", LINES)
        source = file_source(tmp_path, columns=COLUMNS)
        return SourceContext(
            source=source, columns=("id", "name"), rows={"a.json": ROWS, "b.json": ROWS}
        )


class TestCompressedFiles(SplitSourceContract):
    """`filesystem` over a file that is compressed: one position holds all."""

    @pytest.fixture
    def context(self, tmp_path: Path) -> SourceContext:
        """It cannot be cut."""
        write(tmp_path / "a.json.gz", LINES)
        source = file_source(tmp_path, columns=COLUMNS)
        return SourceContext(
            source=source, columns=("id", "name"), rows={"a.json.gz": ROWS}, whole_splits=True
        )


class TestGeneratedRows(SplitSourceContract):
    """`datagen` with an end."""

    @pytest.fixture
    def context(self) -> SourceContext:
        """Rows are made up, the same ones from any row on."""
        table = datagen_table({"f": "INT", "g": "STRING"}, {"number-of-rows": "7"})
        return SourceContext(
            source=DatagenConnector(project=Path()).source(table), columns=("f", "g")
        )


class TestNexmark(SplitSourceContract):
    """`nexmark` with an end, over a round and the beginning of another."""

    @pytest.fixture
    def context(self) -> SourceContext:
        """An event is one of three kinds."""
        table = nexmark_table({"events.num": "53", "first-event.rate": "7"})
        return SourceContext(
            source=NexmarkConnector(project=Path()).source(table), columns=("bid", "event_type")
        )


@pytest.mark.parametrize("connector", [KAFKA, {"connector": "filesystem", "path": "p"}])
class TestFixtures(SplitSourceContract):
    """The double of a table in `penstock test`, by its own connector's decoder."""

    @pytest.fixture
    def context(self, connector: dict[str, str], tmp_path: Path) -> SourceContext:
        """Records are files of the case."""
        table = fixture_table({**connector, "format": "json"}, COLUMNS)
        rows = [InputRow(cells={"id": i, "name": name}) for i, name in ROWS]
        source = fixture_of(table, tmp_path, rows, ends=True)
        split = "a-topic-0" if connector is KAFKA else "0"
        return SourceContext(source=source, columns=("id", "name"), rows={split: ROWS})


class TestTopics(SplitSourceContract):
    """`kafka` over two partitions."""

    @pytest.fixture
    def context(self, kafka: KafkaServer) -> SourceContext:
        """Positions are offsets."""
        from tests.connector.kafka.reading import topic_source

        topic = kafka.create_topic(partitions=2)
        for partition in (0, 1):
            kafka.produce(
                topic, [line.encode() for line in LINES.splitlines()], partition=partition
            )
        source = topic_source(kafka, topic, {"scan.bounded.mode": "latest-offset"}, columns=COLUMNS)
        return SourceContext(
            source=source,
            columns=("id", "name"),
            rows={f"{topic}-{partition}": ROWS for partition in (0, 1)},
        )
