"""Own PySpark's private attributes: py4j's way into Java, and what PySpark keeps of it in its own objects.

No other module reads one: what a new release of PySpark may break is here, and each function says why PySpark
has no public way. What is returned as Any is an object of Java, whose methods are Java's public ones. PySpark is
loaded when a function needs it: modules that plan without Spark import this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.udtf import UserDefinedTableFunction


def jvm_of(spark: SparkSession) -> Any:
    """Return py4j's view of Java's packages and classes (`SparkSession._jvm`).

    PySpark wraps what users of Spark need; Hadoop, Delta, Catalyst and Scala's values are not among it.
    """
    jvm = spark._jvm  # noqa: SLF001
    assert jvm is not None, "a classic Spark session has a JVM"
    return jvm


def java_class(spark: SparkSession, name: str) -> Any:
    """Return a class of Java by its whole name, for its static methods and constructors; Java looks for it when used.

    `jvm.org.apache...` asks Java at each dot, which searches all jars for a class of that name: too slow for what
    each micro-batch does.
    """
    from py4j.java_gateway import JavaClass

    return JavaClass(name, gateway_of(spark)._gateway_client)  # noqa: SLF001


def scala_object(spark: SparkSession, name: str) -> Any:
    """Return an object of Scala by its whole name."""
    return getattr(java_class(spark, f"{name}$"), "MODULE$")


def java_session(spark: SparkSession) -> Any:
    """Return Java's session (`SparkSession._jsparkSession`): an argument of Java's methods, and a session's identity.

    Several objects of Python may stand for one session, and PySpark does not tell that they do.
    """
    return spark._jsparkSession  # noqa: SLF001


def make_active(spark: SparkSession) -> None:
    """Make a session the active one of the thread: Java's code takes settings and data sources from there.

    PySpark does so in a few of its functions (`createDataFrame`), and has none for it alone.
    """
    name = "org.apache.spark.sql.classic.SparkSession"
    java_class(spark, name).setActiveSession(java_session(spark))


def clone_session(spark: SparkSession) -> SparkSession:
    """Copy a session with its settings, functions, temporary views and data sources, as each streaming query does.

    It shares Spark's context, jars and catalogs. Spark keeps it as long as the context: make few.
    PySpark has `newSession` alone, whose sessions have none of that; `cloneSession` is private[sql] in Scala.
    """
    from pyspark.sql import SparkSession

    return SparkSession(spark.sparkContext, java_session(spark).cloneSession())


def session_catalog(spark: SparkSession) -> Any:
    """Return the session's SessionCatalog (`_jsparkSession.sessionState`).

    PySpark's `Catalog` can neither drop all temporary views at once nor create an entry without a look at its table.
    """
    return java_session(spark).sessionState().catalog()


def set_default(spark: SparkSession, key: str, value: str) -> None:
    """Set what sessions begin with from now on: the shared state's and the context's settings (`_jsparkSession`).

    PySpark sets a session's own, and gives a copy of the context's.
    """
    own = java_session(spark)
    own.sharedState().conf().set(key, value)
    own.sparkContext().conf().set(key, value)


def hadoop_configuration(spark: SparkSession) -> Any:
    """Return Hadoop's configuration with the session's settings (`_jsparkSession.sessionState`).

    PySpark has none; `SparkContext._jsc` has one without the settings of sessions.
    """
    return java_session(spark).sessionState().newHadoopConf()


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return Hadoop's FileSystem of a path, and the path as Hadoop's Path.

    PySpark reads and writes tables; it neither lists, renames nor removes files.
    """
    file = java_class(spark, "org.apache.hadoop.fs.Path")(path)
    return file.getFileSystem(hadoop_configuration(spark)), file


def java_frame(frame: DataFrame) -> Any:
    """Return Java's Dataset (`DataFrame._jdf`), an argument of Java's methods."""
    return frame._jdf  # noqa: SLF001


def analyzed_plan(frame: DataFrame) -> Any:
    """Return the LogicalPlan of a frame after analysis (`DataFrame._jdf`); PySpark prints plans only."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001


def unpersist_local_checkpoint(frame: DataFrame) -> None:
    """Free the blocks of a frame that `localCheckpoint` returned, without waiting for it.

    `DataFrame.unpersist` knows what `persist` holds; the blocks of a local checkpoint belong to the RDD in the plan,
    and stay until the garbage collectors of Python and of Java have found it.
    """
    analyzed_plan(frame).rdd().unpersist(False)


def observed_metric(frame: DataFrame, name: str) -> int:
    """Return the first figure of a DataFrame that was observed, as of the last action over its own plan.

    `Observation` waits for an action of the frame itself; a local checkpoint of it runs with another one.
    """
    row = java_frame(frame).queryExecution().observedMetrics().apply(name)
    return int(row.getLong(0))


def recent_progress(query: StreamingQuery) -> Sequence[Any]:
    """Return the progress events that Spark keeps of a query, the newest last (`StreamingQuery._jsq`).

    The public property parses every one of them at each call.
    """
    events: Sequence[Any] = query._jsq.recentProgress()  # noqa: SLF001
    return events


def table_function_name(function: UserDefinedTableFunction) -> str:
    """Return the name that a table function has in plans (`_name`), which a copy of it has to be given."""
    return function._name  # noqa: SLF001


def gateway_of(spark: SparkSession) -> Any:
    """Return py4j's gateway to Spark's Java process (`SparkContext._gateway`).

    PySpark offers neither its server for calls from Java, nor arrays, which Java's variable arguments need.
    """
    gateway = spark.sparkContext._gateway  # noqa: SLF001
    assert gateway is not None, "a Spark context in the driver has a gateway"
    return gateway


def java_array(spark: SparkSession, kind: Any, *items: Any) -> Any:
    """Return an array of the Java class `kind`, as methods with variable arguments take it."""
    array = gateway_of(spark).new_array(kind, len(items))
    for index, item in enumerate(items):
        array[index] = item
    return array


def callback_server_runs(gateway: Any) -> bool:
    """Tell whether the port for calls from Java is open (`_callback_server`), as PySpark does.

    By its dictionary: a gateway answers every name that it does not have with a package of Java.
    """
    return vars(gateway).get("_callback_server") is not None


def gateway_server(gateway: Any) -> Any:
    """Return Java's side of a gateway, py4j's JavaServer (`_gateway_client`); py4j has it under this name only."""
    from py4j.java_gateway import JavaObject

    return JavaObject("GATEWAY_SERVER", gateway._gateway_client)  # noqa: SLF001


def running_context() -> tuple[SparkContext | None, Any]:
    """Return this process's context and gateway, None for what it has not (`SparkContext._active_spark_context`).

    `SparkContext.getOrCreate` would start one.
    """
    from pyspark import SparkContext

    return SparkContext._active_spark_context, SparkContext._gateway  # noqa: SLF001


def adopt_gateway(gateway: Any) -> None:
    """Have PySpark use a gateway to a Java process that is there (`SparkContext._ensure_initialized`).

    The constructor of SparkContext takes one too, but makes the context at once, without the builder's settings.
    PySpark's own tests do it this way.
    """
    from pyspark import SparkContext

    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
