"""What only Spark knows of a statement set: users' functions that give a row another value each time."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.check.checkpoint_assignment import name_scripts
from penstock.sql.check.script_check import check_scripts
from penstock.sql.checkpoint.directory import checkpoint_files
from penstock.sql.execution.context import SessionContext
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.runner.plan import SharedQuery, plan_set
from penstock.sql.script.files import ScriptFile

TEXT = """
CREATE TABLE s (id BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE a (x BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE b (x BIGINT) WITH ('connector' = 'blackhole');
CREATE FUNCTION spun AS 'operator.neg' LANGUAGE PYTHON;
EXECUTE STATEMENT SET BEGIN
INSERT INTO a SELECT id FROM s;
INSERT INTO b SELECT spun(id) FROM s;
END;
"""


@pytest.mark.parametrize("declared", [True, False])
def test_a_function_that_is_declared_not_deterministic_ends_the_shared_read(
    spark: SparkSession, tmp_path: Path, declared: bool
) -> None:
    """The INSERTs run side by side then, each with a checkpoint of its own; and it is said why."""
    function = F.udf(lambda value: value, "bigint")
    spark.udf.register("spun", function.asNondeterministic() if declared else function)
    namespace = Namespace(SqlCatalog("sqlite://"))
    checked = check_scripts(
        (ScriptFile(name="job.sql", text=TEXT),),
        SessionContext(namespace=namespace, project=tmp_path),
        variables={},
        env={},
    )
    (script,) = name_scripts(checked, tmp_path, checkpoint_files(spark))
    one = script.statements[-1]
    planner = Planner(namespace=namespace, project=tmp_path, default_pipeline="job")

    planned = plan_set(one.members, planner, spark, one.placed)

    planner.close()
    if declared:
        assert "spun(" in (planned.reason or "")
        assert [query.pipeline for query in planned.queries] == ["job/a", "job/b"]
    else:
        assert [type(query) for query in planned.queries] == [SharedQuery]
