"""Own PySpark's private attributes: py4j's way into Java, and what PySpark keeps of it in its own objects.

No other module reads one: what a new release of PySpark may break is here, and each function says why PySpark
has no public way. What is returned as Any is an object of Java, whose methods are Java's public ones. PySpark is
loaded when a function needs it: modules that plan without Spark import this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType
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


def static_method(spark: SparkSession, java: str, name: str) -> Any:
    """Return a static method of a class of Java by its whole name, without asking Java whether there is one.

    A member of `java_class` is asked for first, which is a call as long as that of the method.
    """
    return _static_method(gateway_of(spark), java, name)


def _static_method(gateway: Any, java: str, name: str) -> Any:
    from py4j.java_gateway import JavaMember

    return JavaMember(name, None, f"z:{java}", gateway._gateway_client)  # noqa: SLF001


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


def knows_data_source(spark: SparkSession, name: str) -> bool:
    """Tell whether a session has a Python data source of this name (`sessionState.dataSourceManager`).

    PySpark has only their registration, for which Spark looks for a class of that name in all jars.
    """
    manager = java_session(spark).sessionState().dataSourceManager()
    return bool(manager.dataSourceExists(name))


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


_WITH_CALL_SITES = "_enable_debugging_cache"
"""Of `pyspark.errors.utils`: whether call sites are sent; None before the first column."""


class _CallSites:
    """How many threads make frames without call sites now, and what PySpark was set to before the first of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before: bool | None = None

    def leave_out(self) -> None:
        from pyspark.errors import utils

        with self._lock:
            if not self._inside:
                self._before = vars(utils)[_WITH_CALL_SITES]
                vars(utils)[_WITH_CALL_SITES] = False
            self._inside += 1

    def restore(self) -> None:
        from pyspark.errors import utils

        with self._lock:
            self._inside -= 1
            if not self._inside:
                vars(utils)[_WITH_CALL_SITES] = self._before


_CALL_SITES = _CallSites()


@contextmanager
def without_call_sites() -> Iterator[None]:
    """Make frames without telling Java for each column which line of Python has made it.

    PySpark asks for the active session and for a setting each time, ten calls of Java for an operator of a column: half
    of what the start of a query takes. The lines are ours, which no error shows; those of users' frames stay, except
    for what other threads make meanwhile. The setting of Spark is of the whole process, and PySpark reads it once.
    """
    _CALL_SITES.leave_out()
    try:
        yield
    finally:
        _CALL_SITES.restore()


def remember_members(spark: SparkSession) -> None:
    """Let PySpark find functions of Java without asking Java for their names (`SparkContext._jvm`).

    It looks for a class and for its method before each call: three calls for each column. Both classes have static
    methods alone.
    """
    jvm, gateway = jvm_of(spark), gateway_of(spark)
    names = {
        "org.apache.spark.sql.functions": "org.apache.spark.sql.functions",
        "functions": "org.apache.spark.sql.functions",
        "PythonUtils": "org.apache.spark.api.python.PythonUtils",
    }
    for name, java in names.items():
        # what is there is not asked for by `__getattr__`
        vars(jvm)[name] = StaticMethods(gateway, java)


class StaticMethods:
    """The static methods of a class of Java, by their names; whether there is one shows when it is called."""

    def __init__(self, gateway: Any, java: str) -> None:
        self._gateway = gateway
        self._java = java

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for such of any object
            raise AttributeError(name)
        method = _static_method(self._gateway, self._java, name)
        vars(self)[name] = method
        return method


_SEPARATOR = "\x1f"
"""Between texts that go to Java as one."""


def select_sql(frame: DataFrame, items: Sequence[str]) -> DataFrame:
    """Return `frame.selectExpr(*items)` in three calls of Java, however many items there are.

    PySpark makes a call for each item of a list, and three for each column that is an object of its own.
    """
    from pyspark.sql import DataFrame

    if not items or any(_SEPARATOR in item for item in items):
        return frame.selectExpr(*items)
    split = static_method(
        frame.sparkSession, "org.apache.commons.lang3.StringUtils", "splitPreserveAllTokens"
    )
    texts = split(_SEPARATOR.join(items), _SEPARATOR)
    return DataFrame(java_frame(frame).selectExpr(texts), frame.sparkSession)


_ENVIRONMENTS: dict[int, tuple[Any, Mapping[str, str], Any]] = {}
"""By the identity of a gateway: it, the environment of a context's workers, and that in Java."""


def _java_environment(context: SparkContext, gateway: Any) -> Any:
    """Return the environment of a context's workers as Java's map, which py4j would fill entry by entry at each use."""
    from py4j.java_collections import MapConverter

    found = dict(context.environment)
    known = _ENVIRONMENTS.get(id(gateway))
    if known is None or known[0] is not gateway or known[1] != found:
        java = MapConverter().convert(found, gateway._gateway_client)  # noqa: SLF001
        _ENVIRONMENTS.clear()  # a process has one context
        known = _ENVIRONMENTS[id(gateway)] = gateway, found, java
    return known[2]


def map_in_arrow(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """Return `frame.mapInArrow(function, schema)` in ten calls of Java.

    PySpark makes some for each column of the frame, which it looks up by a name that it does not quote, and for each
    variable of the environment of workers.
    """
    from pyspark.core.rdd import _prepare_for_python_RDD
    from pyspark.sql import DataFrame
    from pyspark.util import PythonEvalType

    spark, gateway = frame.sparkSession, gateway_of(frame.sparkSession)
    context = spark.sparkContext
    command, broadcasts, _, includes = _prepare_for_python_RDD(context, (function, schema))
    python = java_class(spark, "org.apache.spark.api.python.SimplePythonFunction")(
        bytearray(command),
        _java_environment(context, gateway),
        includes,
        context.pythonExec,
        context.pythonVer,
        broadcasts,
        context._javaAccumulator,  # noqa: SLF001
    )
    java = java_class(spark, "org.apache.spark.sql.execution.python.UserDefinedPythonFunction")(
        type(function).__name__,
        python,
        java_session(spark).parseDataType(schema.json()),
        PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
        True,
    )
    columns = analyzed_plan(frame).output()
    rows = java_frame(frame).mapInArrow(java.fromUDFExpr(java.builder(columns)), False, None)
    return DataFrame(rows, spark)


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a frame without rows, a relation of the driver.

    `createDataFrame` makes an RDD of them by thirty calls of Java, and Spark has no way to run less of a plan over one.
    """
    from pyspark.sql import DataFrame

    own = java_session(spark)
    rows = java_class(spark, "java.util.ArrayList")()
    return DataFrame(own.createDataFrame(rows, own.parseDataType(schema.json())), spark)


def analyzed_plan(frame: DataFrame) -> Any:
    """Return the LogicalPlan of a frame after analysis (`DataFrame._jdf`); PySpark prints plans only."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001


def unpersist_local_checkpoint(frame: DataFrame) -> None:
    """Free the blocks of a frame that `localCheckpoint` returned, without waiting for it.

    `DataFrame.unpersist` knows what `persist` holds; the blocks of a local checkpoint belong to the RDD in the plan,
    and stay until the garbage collectors of Python and of Java have found it.
    """
    analyzed_plan(frame).rdd().unpersist(False)


def planned(frame: DataFrame) -> DataFrame:
    """Return the rows of a frame by a plan that is made now, with the settings of now (`QueryExecution.toRdd`).

    Each action over it computes them; that of `localCheckpoint` keeps them.
    """
    from pyspark.sql import DataFrame

    execution = java_frame(frame).queryExecution()
    schema, streaming = execution.analyzed().schema(), False
    own = java_session(frame.sparkSession)
    rows = own.internalCreateDataFrame(execution.toRdd(), schema, streaming)
    return DataFrame(rows, frame.sparkSession)


def observed_metric(frame: DataFrame, name: str) -> int:
    """Return the first figure of a DataFrame that was observed, as of the last action over its own plan.

    `Observation` waits for an action of the frame itself; its rows, `planned` or kept, run with another one.
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
