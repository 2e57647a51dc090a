"""Hypothesis strategies for the catalog's values: any table that the rules allow."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import (
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    PrimaryKey,
    Schema,
    Table,
    TableDistribution,
    View,
    Watermark,
)

texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
names = texts.filter(bool)
comments = st.none() | texts
nullable = st.booleans()
lengths = st.integers(1, t.MAX_LENGTH)
precisions = st.integers(0, 9)


def unique_names(minimum: int, maximum: int) -> st.SearchStrategy[list[str]]:
    """Lists of names that Spark tells apart."""
    return st.lists(names, min_size=minimum, max_size=maximum, unique_by=str.lower)


@st.composite
def decimals(draw: st.DrawFn) -> t.DecimalType:
    """DECIMAL with a scale that fits its precision."""
    precision = draw(st.integers(1, 38))
    return t.DecimalType(
        precision=precision, scale=draw(st.integers(0, precision)), nullable=draw(nullable)
    )


plain_types: st.SearchStrategy[t.LogicalType] = st.one_of(
    *(
        st.builds(kind, nullable=nullable)
        for kind in (
            t.BooleanType,
            t.TinyIntType,
            t.SmallIntType,
            t.IntType,
            t.BigIntType,
            t.FloatType,
            t.DoubleType,
            t.DateType,
            t.IntervalYearMonthType,
            t.IntervalDaySecondType,
        )
    ),
    *(
        st.builds(kind, length=lengths, nullable=nullable)
        for kind in (t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType)
    ),
    *(
        st.builds(kind, precision=precisions, nullable=nullable)
        for kind in (t.TimeType, t.TimestampType, t.TimestampLtzType)
    ),
    decimals(),
)


@st.composite
def rows(draw: st.DrawFn, inner: st.SearchStrategy[t.LogicalType]) -> t.RowType:
    """ROW of one to three fields."""
    fields = tuple(
        t.RowField(name=name, type=draw(inner), comment=draw(comments))
        for name in draw(unique_names(1, 3))
    )
    return t.RowType(fields=fields, nullable=draw(nullable))


logical_types: st.SearchStrategy[t.LogicalType] = st.recursive(
    plain_types,
    lambda inner: st.one_of(
        st.builds(t.ArrayType, element=inner, nullable=nullable),
        st.builds(t.MultisetType, element=inner, nullable=nullable),
        st.builds(t.MapType, key=inner, value=inner, nullable=nullable),
        rows(inner),
    ),
    max_leaves=6,
)


@st.composite
def identifiers(draw: st.DrawFn) -> Identifier:
    """Full names, with dots, backticks and blanks in their parts."""
    return Identifier(catalog=draw(names), database=draw(names), name=draw(names))


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Physical, metadata and computed columns, often with a key and a watermark."""
    physical, others = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    columns: list[PhysicalColumn | MetadataColumn | ComputedColumn] = []
    for index, name in enumerate(draw(unique_names(physical + others, physical + others))):
        if index < physical:
            kind = draw(logical_types)
            columns.append(PhysicalColumn(name=name, type=kind, comment=draw(comments)))
        elif draw(st.booleans()):
            columns.append(
                MetadataColumn(
                    name=name,
                    type=draw(logical_types),
                    key=draw(st.none() | names),
                    virtual=draw(st.booleans()),
                    comment=draw(comments),
                )
            )
        else:
            columns.append(
                ComputedColumn(
                    name=name,
                    expression=draw(names),
                    type=draw(st.none() | logical_types),
                    comment=draw(comments),
                )
            )
    key = draw(st.lists(st.sampled_from(columns[:physical]), max_size=2, unique=True))
    eventful = [c.name for c in columns if _can_be_event_time(c.type)]
    return Schema(
        columns=tuple(draw(st.permutations(columns))),
        primary_key=PrimaryKey(
            columns=tuple(column.name for column in key), name=draw(st.none() | names)
        )
        if key
        else None,
        watermark=Watermark(column=draw(st.sampled_from(eventful)), expression=draw(names))
        if eventful and draw(st.booleans())
        else None,
    )


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Tables with options and partitioning."""
    schema = draw(schemas())
    options = draw(st.dictionaries(names, texts, max_size=3))
    return Table(
        identifier=draw(identifiers()),
        schema=schema,
        options=tuple(options.items()),
        partition_keys=tuple(
            draw(st.lists(st.sampled_from(schema.names), max_size=2, unique=True))
        ),
        comment=draw(comments),
        temporary=draw(st.booleans()),
        distribution=draw(
            st.none()
            | st.builds(
                TableDistribution,
                kind=st.sampled_from((None, "HASH", "RANGE")),
                columns=st.just(schema.names[:1]),
                buckets=st.none() | st.integers(1, 9),
            )
        ),
    )


views: st.SearchStrategy[View] = st.builds(
    View,
    identifier=identifiers(),
    query=names,
    columns=unique_names(0, 3).map(tuple),
    comment=comments,
    temporary=st.booleans(),
)


def _can_be_event_time(kind: t.LogicalType | None) -> bool:
    return kind is None or (
        isinstance(kind, t.TimestampType | t.TimestampLtzType) and kind.precision <= 3
    )
