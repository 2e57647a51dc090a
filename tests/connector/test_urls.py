"""Which locations are URLs, which paths, and which of them this machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connector.urls import is_remote, resolve_path, split_url

PROJECT = Path("/projects/shop")


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("orders", "/projects/shop/orders"),
        ("./data//orders/", "/projects/shop/data/orders"),
        ("../lake/orders", "/projects/lake/orders"),
        ("/lake/orders", "/lake/orders"),
        ("s3a://bucket/orders", "s3a://bucket/orders"),
        ("hdfs://name:8020/orders", "hdfs://name:8020/orders"),
        ("file:/lake/orders", "file:/lake/orders"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
        ("a:b/orders", "/projects/shop/a:b/orders"),
    ],
)
def test_a_path_is_of_the_project_and_a_url_is_left_as_it_is(path: str, location: str) -> None:
    """The same table from whichever folder the command is typed in."""
    assert resolve_path(path, PROJECT) == location


@pytest.mark.parametrize(
    ("location", "parts"),
    [
        ("S3A://bucket/a:b/c", ("s3a", "//bucket/a:b/c")),
        ("file:/lake/orders", ("file", "/lake/orders")),
        ("C:/data/orders", None),
        ("orders", None),
        ("s3:bucket", None),
    ],
)
def test_a_scheme_has_two_letters_and_a_slash_after_it(
    location: str, parts: tuple[str, str] | None
) -> None:
    """A drive of Windows is no scheme."""
    assert split_url(location) == parts


@pytest.mark.parametrize(
    ("location", "remote"),
    [("orders", False), ("FILE:///lake", False), ("s3a://bucket/x", True), ("hdfs://n/x", True)],
)
def test_what_is_elsewhere_is_a_url_with_another_scheme_than_file(
    location: str, remote: bool
) -> None:
    """Without an engine only this machine's folders are asked."""
    assert is_remote(location) is remote
