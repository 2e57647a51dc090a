"""The class path of Spark's Java process, and the archive of its classes that lets the process start quickly.

The jars of connectors are on the class path, not in `spark.jars`: Java shares the classes of a class path between
processes (`connector/jvm/class_data.py`), and Spark copies what `spark.jars` names at each start. Called by
`spark_session.py`, `jvm.py`, `penstock prepare` and `penstock doctor`.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from penstock.connector.jvm.class_data import Archive, archive_of, start_options
from penstock.connector.jvm.java import find_java

CLASS_PATH = "spark.driver.extraClassPath"
JARS = "spark.jars"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"

COMPILED_LATER = (
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=400000",
    "-XX:Tier3DelayOn=0",
)
"""Ten to twenty times Java's own calls of a method, and turns of a loop, before it compiles it with all its
optimisations; and while methods wait for that, others are compiled without the counters that prepare it. What runs for
each row is called so often within seconds; what plans a query runs some thousand times, and never earns it. Of a
Nexmark query over one million events this saves 5 to 30 % of Java's CPU time against five times Java's own calls;
`-XX:TieredStopAtLevel=1` saves more of short queries, and costs a third more where Spark computes rows.
"""


def class_path_settings(
    jars: Sequence[Path], conf: Mapping[str, str], *, in_process: bool
) -> dict[str, str]:
    """Return the settings by which Spark finds the jars of connectors. `in_process`: its executor is in the driver.

    Executors elsewhere get them as `spark.jars`. So they are where the user has a class path or jars of his own, which
    come first, or in their place.
    """
    if not in_process or CLASS_PATH in conf or JARS in conf or _has_spark_defaults():
        return {JARS: ",".join(map(str, jars))}
    return {CLASS_PATH: os.pathsep.join(map(str, jars))}


def archive_for(settings: Mapping[str, str]) -> Archive | None:
    """Return the archive of a Spark with these settings; None where its class path is not known. Raises InputError."""
    own = [Path(part) for part in settings.get(CLASS_PATH, "").split(os.pathsep) if part]
    with suppress(OSError):
        # Java compares the order: it expands `jars/*` as the folder lists it, and Spark's launcher puts slf4j before it
        of_spark = [Path(one.path) for one in os.scandir(spark_home() / "jars")]
        jars = [jar for jar in of_spark if jar.suffix == ".jar"]
        first = [jar for jar in jars if jar.name.startswith("slf4j-api-")]
        return archive_of(find_java(), [*own, *first, *jars])
    return None


def with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings with Java's options for a start with the archive, where there is one."""
    archive = archive_for(settings)
    return with_java_options(settings, start_options(archive) if archive else ())


def with_compiler(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings with Java's options for a process that plans much and computes little."""
    return with_java_options(settings, COMPILED_LATER)


def with_java_options(settings: Mapping[str, str], options: Sequence[str]) -> dict[str, str]:
    """Return settings with more options of Java, before those that are there: of two, Java takes the last."""
    words = [*map(shlex.quote, options), settings.get(JAVA_OPTIONS, "")]
    text = " ".join(word for word in words if word)
    return {**settings, JAVA_OPTIONS: text} if text else dict(settings)


def spark_home() -> Path:
    """Return the folder of the Spark that PySpark starts: the one of SPARK_HOME, or its own."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    return installed_spark()


def installed_spark() -> Path:
    """Return the folder of PySpark's own Spark."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None, "PySpark is installed"
    assert spec.origin is not None, "PySpark is a package with files"
    return Path(spec.origin).parent


def _has_spark_defaults() -> bool:
    """Return whether Spark reads a `spark-defaults.conf`, whose class path ours would replace."""
    folder = os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf"
    return Path(folder, "spark-defaults.conf").exists()
