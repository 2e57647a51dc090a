"""What CREATE TABLE ... LIKE takes over (Flink: MergeTableLikeUtilTest)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model.like import Feature, LikeOptions, Strategy
from penstock.catalog.model.table import (
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    PrimaryKey,
    Schema,
    Table,
    TableDistribution,
    Watermark,
)
from penstock.catalog.model.types import IntType, TimestampType
from tests.catalog.examples import identifier

ID = PhysicalColumn(name="id", type=IntType())
SUM = ComputedColumn(name="sum", expression="id + 1", type=IntType())
OFFSET = MetadataColumn(name="offset", type=IntType())
TS = PhysicalColumn(name="ts", type=TimestampType(precision=3))
SOURCE = Table(
    identifier=identifier("source"),
    schema=Schema(
        columns=(ID, SUM, OFFSET, TS),
        watermark=Watermark(column="ts", expression="ts"),
        primary_key=PrimaryKey(columns=("id",)),
    ),
    options=(("a", "1"), ("b", "2")),
    partition_keys=("id",),
    distribution=TableDistribution(columns=("id",), buckets=2),
)


def test_everything_is_taken_over_unless_said() -> None:
    """And own options win."""
    like = LikeOptions.of(())

    assert like.columns(SOURCE.schema) == SOURCE.schema.columns
    assert like.watermark_taken(SOURCE.schema, own=False)
    assert like.key_taken(SOURCE.schema, own=False)
    assert like.partition_keys(SOURCE, ()) == ("id",)
    assert like.distribution(SOURCE, None) == SOURCE.distribution
    like.check_option("a", SOURCE)
    assert dict(like.options(SOURCE, (("a", "9"), ("c", "3")))) == {"a": "9", "b": "2", "c": "3"}


def test_without_anything_only_physical_columns_are_left() -> None:
    """EXCLUDING ALL."""
    like = LikeOptions.of((("EXCLUDING", "ALL"),))

    assert like.columns(SOURCE.schema) == (ID, TS)
    assert not like.watermark_taken(SOURCE.schema, own=True)
    assert not like.key_taken(SOURCE.schema, own=True)
    assert like.partition_keys(SOURCE, ("ts",)) == ("ts",)
    assert like.distribution(SOURCE, None) is None
    assert like.options(SOURCE, (("a", "9"),)) == (("a", "9"),)


def test_one_feature_is_another_way_than_all_wherever_it_stands() -> None:
    """EXCLUDING ALL INCLUDING GENERATED, and the other way round."""
    pairs = (("EXCLUDING", "ALL"), ("INCLUDING", "GENERATED"))
    for order in (pairs, tuple(reversed(pairs))):
        strategies = LikeOptions.of(order).strategies

        assert strategies[Feature.GENERATED] == Strategy.INCLUDING
        assert strategies[Feature.METADATA] == Strategy.EXCLUDING


def test_what_both_tables_have_is_refused_with_the_words_that_help() -> None:
    """INCLUDING ALL takes everything, own options too."""
    like = LikeOptions.of((("INCLUDING", "ALL"),))
    clashes = {
        "EXCLUDING OPTIONS or OVERWRITING OPTIONS": lambda: like.check_option("a", SOURCE),
        "EXCLUDING WATERMARKS or": lambda: like.watermark_taken(SOURCE.schema, own=True),
        "(EXCLUDING CONSTRAINTS)": lambda: like.key_taken(SOURCE.schema, own=True),
        "(EXCLUDING PARTITIONS)": lambda: like.partition_keys(SOURCE, ("ts",)),
        "(EXCLUDING DISTRIBUTION)": lambda: like.distribution(SOURCE, TableDistribution(buckets=1)),
        "OVERWRITING GENERATED": lambda: like.check_column(SUM, SUM),
        "OVERWRITING METADATA": lambda: like.check_column(OFFSET, OFFSET),
    }
    for words, clash in clashes.items():
        with pytest.raises(DefinitionError) as caught:
            clash()
        assert words in (caught.value.hint or "")


def test_a_column_takes_the_place_of_one_of_its_kind_only() -> None:
    """And a physical one of none."""
    like = LikeOptions.of((("OVERWRITING", "GENERATED"), ("OVERWRITING", "METADATA")))
    like.check_column(SUM, SUM)
    like.check_column(OFFSET, OFFSET)
    for own, other in ((ID, ID), (replace(SUM, name="id"), ID), (replace(OFFSET, name="sum"), SUM)):
        with pytest.raises(DefinitionError, match="in the other table already"):
            like.check_column(own, other)


def test_own_watermark_replaces_the_other() -> None:
    """OVERWRITING WATERMARKS."""
    like = LikeOptions.of((("OVERWRITING", "WATERMARKS"),))

    assert not like.watermark_taken(SOURCE.schema, own=True)
    assert like.watermark_taken(SOURCE.schema, own=False)
