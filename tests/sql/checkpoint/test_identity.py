"""Names and directories of checkpoints: different names have different directories, on every file system."""

from __future__ import annotations

import posixpath
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.sql.checkpoint.identity import checkpoint_location, folder_name, old_folder_name

# lone surrogates too, and names that look like what others are written as
NAMES = st.one_of(
    st.text(st.characters(codec=None), max_size=40),
    st.text("aA_-./ \u00e9e\u0301%~0", max_size=8),
    st.text("ab", min_size=100, max_size=300),
    st.text(max_size=8).map(folder_name),
)


@given(first=NAMES, second=NAMES)
@example("日本", "中国")
@example("größe", "grüße")
@example("a b", "a_b")
@example("Orders", "orders")
@example("caf\u00e9", "cafe\u0301")
@example(folder_name("a b"), "a b")
def test_two_names_have_two_folders_where_letter_case_counts_and_where_not(
    first: str, second: str
) -> None:
    """Nor do forms of Unicode, which some file systems take for one."""
    folded = [unicodedata.normalize("NFC", folder_name(n)).casefold() for n in (first, second)]

    assert (folded[0] == folded[1]) == (first == second)


@given(pipeline=NAMES, sink=NAMES)
@example("..", "..")
@example(".", "")
@example("/etc", "../../x")
def test_a_checkpoint_is_two_levels_below_its_base(pipeline: str, sink: str) -> None:
    """Whatever the names are; and each part is short enough for every file system, set aside or not."""
    location = checkpoint_location("/base", Path("/project"), pipeline, sink)

    folder, name = posixpath.normpath(location).removeprefix("/base/").split("/")
    assert (folder, name) == (folder_name(pipeline), folder_name(sink))
    assert location.isascii()
    assert max(len(folder), len(name)) <= 200


@pytest.mark.parametrize("name", ["orders", "t-2", "per_10s", "db.t", "a1", "statement-set"])
def test_simple_lower_case_names_keep_the_folders_that_they_had(name: str) -> None:
    """So that their checkpoints are where they were."""
    assert folder_name(name) == old_folder_name(name) == name


@pytest.mark.parametrize("name", ["..", ".", "", "dead-letter-topics", "t.set-aside-2", "a.", "A"])
def test_other_names_have_folders_that_nothing_else_has(name: str) -> None:
    """Not that above, not that of what lies beside the checkpoints, not one that a file system writes otherwise."""
    assert folder_name(name) != name
    assert folder_name(name) not in {"", ".", ".."}
