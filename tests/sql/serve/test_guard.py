"""Which of Spark's commands are for reading; what is done with the rest is tests/integration/test_serve.py's part."""

from __future__ import annotations

import pytest

from penstock.sql.serve.guard import is_reading


@pytest.mark.parametrize(
    "command",
    ["ShowTables", "ShowColumns", "DescribeRelation", "DescribeQueryCommand", "ExplainCommand", "SetCommand", "ResetCommand"],
)  # fmt: skip
def test_looking_and_settings_are_reading(command: str) -> None:
    """A session's own settings are its own."""
    assert is_reading(command)


@pytest.mark.parametrize(
    "command",
    [
        "AddJarsCommand",
        "AppendData",
        "CacheTable",
        "CreateFunctionCommand",
        "CreateViewCommand",
        "DropTable",
        "InsertIntoHadoopFsRelationCommand",
        "MergeIntoTable",
        "SetTableProperties",
        "SetTableLocation",
        "SetViewProperties",
        "UnsetTableProperties",
        "UpdateTable",
        "VacuumTableCommand",
        "SomethingOfTheNextSpark",
    ],
)
def test_everything_else_is_not(command: str) -> None:
    """Also what is not known: new commands of Spark are refused until somebody has looked at them."""
    assert not is_reading(command)
