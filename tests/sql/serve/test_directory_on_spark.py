"""Passwords that a directory checks, by Java's client: an LDAP server of ours that knows one password."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.sql.serve.ldap import BindServer, Directory
from penstock.sql.serve.settings import Ldap


@pytest.mark.spark
@pytest.mark.parametrize(
    "form", [{}, {"user_pattern": "uid=%s,dc=acme:cn=%s,dc=acme"}, {"domain": "acme.example"}]
)
def test_the_directory_decides(spark: SparkSession, form: dict[str, str]) -> None:
    """An empty password, which LDAP takes for somebody without a name, is never right."""
    with BindServer() as server:
        directory = Directory(spark._jvm, Ldap(url=server.url, **form))
        right = directory.lets_in("alice", server.password)
        wrong = [directory.lets_in("alice", text) for text in ("wrong", "", "\0", "x\0y")]
        odd = directory.lets_in("a,b=c", server.password)

    assert right
    assert odd
    assert not any(wrong)


@pytest.mark.spark
def test_a_directory_that_is_away_lets_nobody_in(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says so."""
    with BindServer() as server:
        url, password = server.url, server.password
    directory = Directory(spark._jvm, Ldap(url=url))

    assert not directory.lets_in("alice", password)
    assert "nobody can log in by ldap://" in caplog.text
