"""Formats by name."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import OptionError
from penstock.connector.formats import find_format, format_names


def test_every_format_is_found_by_its_name():
    """And says it."""
    assert [find_format(name).identifier for name in format_names()] == list(format_names())


def test_an_unknown_format_names_the_nearest():
    """With the option that asked for it, and what there is."""
    with pytest.raises(
        OptionError, match=r"'jsn'.*'value\.format'.*json, maxwell-json, ogg-json, raw"
    ) as caught:
        find_format("jsn", option="value.format")

    assert caught.value.hint == "did you mean 'json'?"
