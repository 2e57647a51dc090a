"""Functions in Java: compiled, named with their jar in SQL, and called by a query."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.catalog.errors import DefinitionError
from penstock.sql.session.session import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVAC = shutil.which("javac")
SOURCE = """package com.example.{package};

public class Twice implements org.apache.spark.sql.api.java.UDF1<Integer, Integer> {{
    @Override
    public Integer call(Integer value) {{
        return value == null ? null : 2 * value;
    }}
}}
"""

pytestmark = pytest.mark.skipif(JAVAC is None, reason="needs a JDK")


def compiled(folder: Path, package: str) -> Path:
    """A jar with the class com.example.<package>.Twice."""
    import pyspark

    source = folder / "Twice.java"
    source.write_text(SOURCE.format(package=package))
    jars = Path(pyspark.__file__).parent / "jars"
    command = [
        str(JAVAC),
        "--release",
        "17",
        "-proc:none",
        "-cp",
        f"{jars}/*",
        "-d",
        str(folder),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True)
    jar = folder / f"{package}.jar"
    name = f"com/example/{package}/Twice.class"
    with zipfile.ZipFile(jar, "w") as packed:
        packed.write(folder / name, name)
    return jar


def test_a_java_function_comes_from_the_jar_that_it_is_created_with(
    spark: SparkSession, project: Path
) -> None:
    """USING JAR, by a path relative to the project; NULL goes in and comes out."""
    jar = compiled(project, "named")
    with connect(spark) as session:
        session.sql(
            f"CREATE FUNCTION twice AS 'com.example.named.Twice' LANGUAGE JAVA USING JAR '{jar.name}'"
        )
        frame = session.sql("SELECT twice(x) AS y FROM (VALUES (21), (CAST(NULL AS INT))) AS t (x)")

        assert {row.y for row in frame.collect()} == {42, None}  # type: ignore[union-attr]


def test_a_java_function_comes_from_a_jar_that_was_added(
    spark: SparkSession, project: Path
) -> None:
    """ADD JAR in front; a class that is in no jar is refused where it is called."""
    jar = compiled(project, "added")
    with connect(spark) as session:
        session.sql("CREATE TEMPORARY FUNCTION doubled AS 'com.example.added.Twice' LANGUAGE JAVA")
        with pytest.raises(DefinitionError, match="function doubled"):
            session.sql("SELECT doubled(4) AS y")
        session.sql(f"ADD JAR '{jar}'")
        frame = session.sql("SELECT doubled(4) AS y")

        assert [row.y for row in frame.collect()] == [8]  # type: ignore[union-attr]
