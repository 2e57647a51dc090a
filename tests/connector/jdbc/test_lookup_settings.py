"""The options of lookups: which go together, and how the cache is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import OptionError
from penstock.connector.jdbc.connector import JdbcConnector
from penstock.connector.jdbc.settings import LookupSettings, read_lookup_settings
from penstock.connector.lookup.contract import CacheLimits
from tests.connector.jdbc.tables import jdbc_table

CACHE = "lookup.partial-cache"


def test_without_a_cache_nothing_is_remembered_and_a_read_is_tried_four_times() -> None:
    """Flink's defaults."""
    settings = read_lookup_settings(jdbc_table())

    assert settings == LookupSettings(cache=None, retries=3)
    assert settings.shown == "none"


def test_a_partial_cache_has_the_limits_that_are_given() -> None:
    """Each may stand alone."""
    settings = read_lookup_settings(
        jdbc_table(
            {
                "lookup.cache": "partial",
                f"{CACHE}.max-rows": "5000",
                f"{CACHE}.expire-after-write": "10 min",
                f"{CACHE}.expire-after-access": "90 s",
                f"{CACHE}.cache-missing-key": "false",
                "lookup.max-retries": "0",
            }
        )
    )

    assert settings == LookupSettings(
        cache=CacheLimits(
            max_rows=5000, after_write_ms=600_000, after_access_ms=90_000, missing=False
        ),
        retries=0,
    )
    assert settings.shown == (
        "PARTIAL, in each worker process: at most 5000 rows, for 600 s after they were read, for 90 s after they "
        "were used, keys without rows not"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lookup.cache": "FULL"}, "is not one of 'NONE', 'PARTIAL'"),
        ({"lookup.cache": "PARTIAL"}, "would grow without end"),
        (
            {f"{CACHE}.max-rows": "10"},
            f"option '{CACHE}.max-rows' is of a cache, and there is none",
        ),
        (
            {"lookup.cache": "NONE", f"{CACHE}.cache-missing-key": "true"},
            "is of a cache, and there is none",
        ),
        ({"lookup.cache": "PARTIAL", f"{CACHE}.max-rows": "0"}, "at least 1"),
        ({"lookup.cache": "PARTIAL", f"{CACHE}.expire-after-write": "0 s"}, "at least 1"),
        ({"lookup.max-retries": "-1"}, "less than 0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, str], message: str) -> None:
    """When the table is created, or named with such a hint."""
    with pytest.raises(OptionError, match=message):
        JdbcConnector(project=Path("/project")).check(jdbc_table(options))
