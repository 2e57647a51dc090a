"""What a location names."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import OptionError
from penstock.connector.inference.inferred_table import name_from
from penstock.connector.inference.location import (
    DeltaLocation,
    FileLocation,
    Subject,
    Topic,
    parse_location,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka://h:9092/orders", Topic(servers="h:9092", topic="orders")),
        ("kafka://a:1,b:2/orders", Topic(servers="a:1,b:2", topic="orders")),
        ("kafka://orders", Topic(servers=None, topic="orders")),
        ("kafka:///orders", Topic(servers=None, topic="orders")),
        (
            "registry+http://u:p@h:8081/subjects/orders-value",
            Subject(url="http://u:p@h:8081", subject="orders-value"),
        ),
        (
            "registry+https://h/base/subjects/a%2Fb/versions/3",
            Subject(url="https://h/base", subject="a/b", version="3"),
        ),
        ("delta:/lake/t", DeltaLocation(path="/lake/t")),
        ("delta:t", DeltaLocation(path="t")),
        ("lake", DeltaLocation(path="lake")),
        ("data/*.json", FileLocation(path="data/*.json")),
        ("s3://bucket/data", FileLocation(path="s3://bucket/data")),
    ],
)
def test_a_location_is_known_by_its_scheme_or_by_what_is_there(tmp_path, text, expected):
    """A folder with a log is a Delta table."""
    (tmp_path / "lake" / "_delta_log").mkdir(parents=True)

    assert parse_location(text, tmp_path) == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("kafak://h/orders", "did you mean 'kafka'"),
        ("kafka://h:9092/", "kafka://host:9092/topic"),
        ("registry+http://h:8081/orders", "/subjects/NAME"),
    ],
)
def test_a_location_that_names_nothing_is_refused_with_how_to_write_it(tmp_path, text, hint):
    """Before anything is asked."""
    with pytest.raises(OptionError) as error:
        parse_location(text, tmp_path)

    assert hint in (error.value.hint or "")


def test_a_password_is_not_shown():
    """Messages and comments have the address without it."""
    assert Subject(url="http://u:p@h:8081", subject="s").shown == "http://h:8081"


@pytest.mark.parametrize(
    ("text", "name"), [("sales.orders-v2", "sales_orders_v2"), ("/a/b/", "b"), ("2026", "t_2026")]
)
def test_a_table_is_called_after_what_it_is_of(text, name):
    """As a plain name."""
    assert name_from(text) == name
