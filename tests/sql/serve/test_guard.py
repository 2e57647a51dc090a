"""With which settings there would be no guard; what it does is tests/security/test_bi_user.py's part."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from penstock.catalog.errors import ConfigError
from penstock.connector.delta.connector import delta_jars
from penstock.sql.serve.guard import (
    COMMANDS,
    GUARD_CONF,
    SETTINGS,
    SHOWN_SETTINGS,
    check_guard_conf,
)


@pytest.mark.parametrize(
    "key", ["spark.sql.hive.thriftServer.singleSession", "spark.sql.runSQLOnFiles"]
)
def test_a_setting_that_switches_the_guard_off_is_refused(key: str) -> None:
    """One session for all would be the server's own, which may do everything."""
    with pytest.raises(ConfigError, match="would not be kept to reading"):
        check_guard_conf({key: "TRUE"})


def test_the_guard_s_own_settings_are_no_hindrance() -> None:
    """Nor are those of others."""
    check_guard_conf(GUARD_CONF)
    check_guard_conf({"spark.driver.memory": "4g"})


# --- which of Spark's commands clients may run; what is done with the rest is ---


KNOWN = Path(__file__).with_name("spark_commands.txt")
"""Every class of Spark's and Delta's that begins like a command for reading; those with a + are allowed."""

NAME = re.compile(r"(?:.*/)?((?:Show|Describe|Explain)[A-Za-z0-9]*)\.class")


def test_every_command_that_looks_like_reading_has_been_looked_at() -> None:
    """A new version of Spark or Delta that brings another one has somebody decide: then the list is written anew."""
    jars = [*Path(pyspark.__file__).with_name("jars").glob("spark-*.jar"), *delta_jars()]
    there = set()
    for jar in jars:
        with ZipFile(jar) as file:
            there |= {found[1] for name in file.namelist() if (found := NAME.fullmatch(name))}
    written = sorted(f"{'+' if name in COMMANDS else '-'} {name}" for name in there)

    assert written == KNOWN.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    "command",
    [
        "AddJarsCommand",
        "AnalyzeTableCommand",
        "AppendData",
        "CacheTable",
        "CreateFunctionCommand",
        "CreateVariable",
        "CreateViewCommand",
        "DescribeDeltaDetailCommand",
        "DescribeDeltaHistory",
        "DropTable",
        "InsertIntoHadoopFsRelationCommand",
        "ListJarsCommand",
        "LoadDataCommand",
        "MergeIntoTable",
        "SetTableLocation",
        "SetTableProperties",
        "SetVariable",
        "SetViewProperties",
        "ShowCreateTableAsSerdeCommand",
        "UnsetTableProperties",
        "UpdateTable",
        "VacuumTableCommand",
        "SomethingOfTheNextSpark",
    ],
)
def test_what_is_not_listed_is_not_allowed(command: str) -> None:
    """Also what begins like a command that is, and what nobody knows yet."""
    assert command not in COMMANDS


def test_no_setting_of_a_client_names_a_class_a_file_or_a_catalog() -> None:
    """Nor switches the guard, or variables in SQL, on and off."""
    dangerous = (
        "catalog",
        "extension",
        "class",
        "path",
        "dir",
        "runSQLOnFiles",
        "substitute",
        "codegen",
        "redaction",
    )

    assert not [key for key in SETTINGS if any(word.lower() in key.lower() for word in dangerous)]
    assert all(key.startswith("spark.sql.") for key in SETTINGS | (SHOWN_SETTINGS - {"-v"}))
