"""Which of Spark's commands clients may run; what is done with the rest is tests/security/test_bi_user.py's part."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from penstock.connector.delta.connector import delta_jars
from penstock.sql.serve.guard import COMMANDS, SETTINGS, SHOWN_SETTINGS

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
