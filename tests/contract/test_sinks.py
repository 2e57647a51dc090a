"""Every sink runs the contract of sinks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from penstock.catalog.model.table import PrimaryKey, Schema, Table
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import Guarantee, SinkCapabilities
from penstock.connector.registry import connector_names
from penstock.connector.testing.connector import FixtureSettings, as_fixture
from tests.catalog.examples import columns, identifier
from tests.contract.sink import SinkContext, SinkContract

BROKERS = {"properties.bootstrap.servers": "127.0.0.1:1", "topic": "orders"}
APPENDS, ALL = ChangelogMode.INSERT_ONLY, ChangelogMode.ALL


def table_of(options: Mapping[str, str], *, keyed: bool = False) -> Table:
    """A table of two columns."""
    return Table(
        identifier=identifier("orders"),
        schema=Schema(
            columns=columns(id="BIGINT NOT NULL", name="STRING"),
            primary_key=PrimaryKey(columns=("id",)) if keyed else None,
        ),
        options=tuple(options.items()),
    )


def context_of(
    options: Mapping[str, str],
    guarantee: Guarantee,
    accepts: ChangelogMode,
    *,
    keyed: bool = False,
    before: bool = False,
    bounded: bool = False,
    resumable: bool = False,
    once: bool = False,
) -> SinkContext:
    """A table with what its sink declares."""
    return SinkContext(
        table=table_of(options, keyed=keyed),
        capabilities=SinkCapabilities(
            guarantee=guarantee,
            accepts=accepts,
            needs_update_before=before,
            bounded_only=bounded,
            resumable=resumable,
            evaluates_once=once,
        ),
    )


ONCE, AT_LEAST, NONE = Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE, Guarantee.NONE
DELTA = {"connector": "delta", "path": "orders"}
JDBC = {"connector": "jdbc", "url": "jdbc:postgresql://h:5432/shop", "table-name": "orders"}
KAFKA = {"connector": "kafka", **BROKERS, "format": "json"}
UPSERT_KAFKA = {
    "connector": "upsert-kafka",
    **BROKERS,
    "key.format": "json",
    "value.format": "json",
}
FILES = {"connector": "filesystem", "path": "orders", "format": "parquet"}
SPARK = {"connector": "spark", "table-name": "`orders`"}

CONTEXTS = {
    "delta": context_of(DELTA, ONCE, APPENDS, resumable=True, once=True),
    "delta-keyed": context_of(DELTA, ONCE, ALL, keyed=True, resumable=True, once=True),
    "jdbc": context_of(JDBC, ONCE, APPENDS),
    "jdbc-keyed": context_of(JDBC, ONCE, ALL, keyed=True),
    "filesystem": context_of(FILES, ONCE, APPENDS),
    "kafka": context_of(KAFKA, AT_LEAST, APPENDS, resumable=True, once=True),
    "kafka-exactly-once": context_of(
        {
            **KAFKA,
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": "p",
            "sink.parallelism": "1",
        },
        ONCE,
        APPENDS,
        resumable=True,
        once=True,
    ),
    "kafka-changes": context_of(
        {**KAFKA, "format": "debezium-json", "sink.parallelism": "1"},
        AT_LEAST,
        ALL,
        before=True,
        resumable=True,
        once=True,
    ),
    "upsert-kafka": context_of(UPSERT_KAFKA, AT_LEAST, ALL, keyed=True, resumable=True, once=True),
    "memory": context_of({"connector": "memory"}, NONE, APPENDS),
    "memory-keyed": context_of({"connector": "memory"}, NONE, ALL, keyed=True),
    "print": context_of({"connector": "print"}, AT_LEAST, ALL),
    "blackhole": context_of({"connector": "blackhole"}, NONE, ALL, once=True),
    "spark": context_of(SPARK, AT_LEAST, APPENDS, bounded=True),
}
FIXTURE = SinkContext(
    table=as_fixture(table_of(DELTA, keyed=True), FixtureSettings(folder="f", location="p")),
    capabilities=SinkCapabilities(guarantee=NONE, accepts=ALL),
)


class TestSinks(SinkContract):
    """The sinks of all connectors, with and without a key, and the double of `penstock test`."""

    @pytest.fixture(params=[*CONTEXTS.values(), FIXTURE], ids=[*CONTEXTS, "fixture"])
    def context(self, request: pytest.FixtureRequest) -> SinkContext:
        """One of them."""
        found: SinkContext = request.param
        return found


def test_every_connector_that_can_be_written_has_a_context() -> None:
    """A new one is added here; `datagen` and `nexmark` are only read."""
    named = {each.table.connector for each in CONTEXTS.values()}

    assert named == {*connector_names(), "spark"} - {"datagen", "nexmark"}
