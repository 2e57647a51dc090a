"""Restricts clients to reading what is published: a rule that Spark runs on every statement of their sessions.

Spark's Thrift server has no rights of its own: any client could drop tables, read any file of the server's user by
`SELECT * FROM text.`/path``, run programs by TRANSFORM and static Java methods by reflect(). Sessions of the process
itself carry a mark with a random value in their settings; streaming queries get a copy of it, a client's session
starts without. No JVM code: Spark takes any scala.Function1, and py4j makes one of a Python object. Commands that
clients may run are listed by their class, with what has to be checked in each.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, ClassVar, NoReturn

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.catalog.errors import ConfigError
from penstock.connector.spark.callback_server import start_callback_server
from penstock.connector.spark.internals import gateway_of, java_session, jvm_of
from penstock.sql.publish.entries import MARK as PUBLISHED


class Target(Enum):
    """Where a command names its object."""

    NOTHING = auto()
    """It changes or shows nothing but its own session, or what everybody may see."""

    CHILD = auto()
    """In its children, resolved."""

    TABLE = auto()
    """In `table`, a name of the session catalog."""

    NAMED_TABLE = auto()
    """In `tableName`."""

    DATABASE = auto()
    """In `databaseName`."""

    SETTING = auto()
    RESET = auto()


COMMANDS: Mapping[str, Target] = {
    # queries that these explain or describe are analysed, and checked, when they run
    "ExplainCommand": Target.NOTHING,
    "DescribeQueryCommand": Target.NOTHING,
    "DescribeFunctionCommand": Target.NOTHING,
    "ShowFunctionsCommand": Target.NOTHING,
    "ShowCatalogsCommand": Target.NOTHING,
    "ShowCollationsCommand": Target.NOTHING,
    "ShowCurrentNamespaceCommand": Target.NOTHING,
    "ShowNamespacesCommand": Target.NOTHING,
    "SetCatalogAndNamespace": Target.CHILD,
    "SetNamespaceCommand": Target.NOTHING,
    "SetCatalogCommand": Target.NOTHING,
    "SetCommand": Target.SETTING,
    "ResetCommand": Target.RESET,
    "DescribeNamespace": Target.CHILD,
    "DescribeDatabaseCommand": Target.DATABASE,
    "ShowTables": Target.CHILD,
    "ShowTablesExtended": Target.CHILD,
    "ShowTablesCommand": Target.DATABASE,
    "ShowViews": Target.CHILD,
    "ShowViewsCommand": Target.DATABASE,
    "DescribeRelation": Target.CHILD,
    "DescribeRelationJsonCommand": Target.CHILD,
    "DescribeColumn": Target.CHILD,
    "DescribeTableCommand": Target.TABLE,
    "DescribeColumnCommand": Target.TABLE,
    "ShowColumns": Target.CHILD,
    "ShowColumnsCommand": Target.NAMED_TABLE,
    "ShowDeltaTableColumnsCommand": Target.CHILD,
    "ShowCreateTable": Target.CHILD,
    "ShowCreateTableCommand": Target.CHILD,
    "ShowPartitions": Target.CHILD,
    "ShowPartitionsCommand": Target.NAMED_TABLE,
    "ShowDeltaPartitionsCommand": Target.CHILD,
    "ShowTableProperties": Target.CHILD,
    "ShowTablePropertiesCommand": Target.TABLE,
}

SETTINGS = frozenset(
    {
        "spark.sql.adaptive.enabled",
        "spark.sql.ansi.enabled",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.crossJoin.enabled",
        "spark.sql.groupByOrdinal",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.mapKeyDedupPolicy",
        "spark.sql.orderByOrdinal",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
    }
)
"""What a client may SET: how its queries are read and run, nothing that names a class, a file or a catalog."""

SHOWN_SETTINGS = frozenset(
    {
        "-v",  # Spark's own settings alone, passwords masked
        "spark.sql.hive.metastore.version",
        "spark.sql.hive.version",
        "spark.sql.variable.substitute",
    }
)
"""What a client may ask for as well; other settings may hold passwords."""


SINGLE_SESSION = "spark.sql.hive.thriftServer.singleSession"
GUARD_CONF = {"spark.sql.runSQLOnFiles": "false", SINGLE_SESSION: "false"}
"""Settings that Spark must be started with."""

MARK = "spark.penstock.serve.own"
CATALOGS = "spark.sql.catalog."
OWN_CATALOG = "spark.sql.catalog.spark_catalog"
FILES = "spark.sql.runSQLOnFiles"
GLOBAL_VIEWS = "global_temp"
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
_RELATIONS = (
    f"{_LOGICAL}.View",
    "org.apache.spark.sql.execution.datasources.LogicalRelation",
    "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation",
    "org.apache.spark.sql.catalyst.catalog.HiveTableRelation",
)
"""What a name in a query becomes."""

_FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_DELTA_FILES = "org.apache.spark.sql.delta.files.TahoeLogFileIndex"
_CHANGE_FEED = "org.apache.spark.sql.delta.commands.cdc.CDCReader$DeltaCDFRelation"

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_FILE_EXPRESSIONS = tuple(
    f"{_EXPRESSIONS}.{name}"
    for name in ("InputFileName", "InputFileBlockStart", "InputFileBlockLength")
)
"""Functions that tell the file of a row: Delta itself calls them, so they stay registered."""

_FUNCTIONS = (
    "reflect",
    "java_method",
    "try_reflect",
    "from_protobuf",
    "to_protobuf",
    # by their options: rowValidationXSDPath, avroSchemaUrl
    "from_xml",
    "schema_of_xml",
    "from_avro",
    "to_avro",
    "schema_of_avro",
)
"""Functions that call Java, or read a file, or an address, by its path."""

_TABLE_FUNCTIONS = ("table_changes", "table_changes_by_path")
"""Delta's functions that read what is not published: any folder, and deleted rows."""


def check_guard_conf(conf: Mapping[str, str]) -> None:
    """Refuse settings of the user with which there would be no guard. Raises ConfigError."""
    for key, value in GUARD_CONF.items():
        if conf.get(key, value).lower() != value:
            raise ConfigError(
                f"{key} = {conf[key]}: clients would not be kept to reading what is published",
                hint="leave it out",
            )


def allow_only_reading(spark: SparkSession) -> None:
    """Guard every session that begins from now on, but this one and copies of it. Once in a process."""
    jvm, gateway = jvm_of(spark), gateway_of(spark)
    # a refusal is an exception of Java's, which a client is to get as it is
    gateway.callback_server_parameters.propagate_java_exceptions = True
    start_callback_server(spark)
    catalyst = jvm.org.apache.spark.sql.catalyst
    registry = catalyst.analysis.FunctionRegistry.builtin()
    for name in _FUNCTIONS:
        registry.dropFunction(catalyst.FunctionIdentifier(name))
    mark = secrets.token_hex(16)
    own = java_session(spark)
    own.conf().set(MARK, mark)
    own.conf().set(FILES, "true")
    for name in _TABLE_FUNCTIONS:
        # registered after Delta's, of which every session makes its own
        info = catalyst.expressions.ExpressionInfo("none", name)
        own.extensions().injectTableFunction(
            jvm.scala.Tuple3(catalyst.FunctionIdentifier(name), info, _refusing(jvm, name))
        )
    own.extensions().injectCheckRule(_RuleBuilder(jvm, mark, own))


def check_guard(spark: SparkSession) -> None:
    """Try on a session like a client's whether it is guarded. Raises ConfigError."""
    probe = java_session(spark).newSession()  # PySpark's would be the active one
    try:
        probe.sql("CREATE TEMPORARY VIEW penstock_probe AS SELECT 1")
    except Py4JJavaError as error:
        if "not allowed" in str(error.java_exception):
            return
    raise ConfigError("clients of this server could do more than read; it does not start")


class _RuleBuilder:
    """Gives each session its rule: Spark calls it once a session, before its first statement is checked."""

    def __init__(self, jvm: Any, mark: str, own: Any) -> None:
        self._mark = mark
        self._nothing = _nothing_to_check(jvm)
        self._rule = _ReadOnlyRule(jvm, own.sharedState().externalCatalog())

    def apply(self, session: Any) -> Any:
        """Choose the rule of a session. A client's has no catalogs but Spark's own."""
        if session.conf().get(MARK, "") == self._mark:
            return self._nothing
        for key in _catalog_keys(session.sessionState().conf()):
            session.conf().unset(key)
        return self._rule

    class Java:
        """What py4j implements in Java."""

        implements: ClassVar = ["scala.Function1"]


class _ReadOnlyRule:
    """Refuses a plan by throwing. Holds no session: it would never be freed, as each holds the other over py4j."""

    def __init__(self, jvm: Any, catalog: Any) -> None:
        self._jvm = jvm
        self._catalog = catalog
        self._suspicious = _instance_of(
            jvm, (f"{_LOGICAL}.Command", f"{_LOGICAL}.ScriptTransformation")
        )
        self._relation = _instance_of(jvm, _RELATIONS)
        self._file_expression = _instance_of(jvm, _FILE_EXPRESSIONS)
        self._files = jvm.java.lang.Class.forName(_FILES, True, _class_loader(jvm))
        self._analysis = jvm.org.apache.spark.sql.catalyst.analysis.AnalysisContext

    def apply(self, plan: Any) -> Any:
        """Check an analysed plan; called on the thread that analyses it, for Spark's inner queries too."""
        conf = self._jvm.org.apache.spark.sql.internal.SQLConf.get()
        if conf.runSQLonFile():
            self._refuse(f"{FILES} = true: this server does not read files by their path")
        found = plan.find(self._suspicious)
        if found.isDefined():
            self._check_command(found.get())
        # a view's text is checked by itself too, in the middle of the analysis: it reads what its reader may not
        whole = self._analysis.get().isDefault()
        if whole and plan.find(self._relation).isDefined():
            self._check_relations(plan)
        if _catalog_keys(conf):
            self._refuse("a client defines no catalogs on this server")
        return self._jvm.scala.runtime.BoxedUnit.UNIT

    def _check_command(self, node: Any) -> None:
        name = node.getClass().getSimpleName()
        if name == "ScriptTransformation":
            self._refuse("TRANSFORM: this server runs no programs")
        target = COMMANDS.get(name)
        if target is None:
            self._refuse(f"{name}: this server is for reading; definitions and rows are Penstock's")
        match target:
            case Target.NOTHING:
                pass
            case Target.SETTING:
                self._check_set(node)
            case Target.RESET:
                key = node.config()
                if not key.isDefined() or key.get() not in SETTINGS:
                    self._refuse("RESET: this setting is not a client's")
            case Target.TABLE:
                self._check_name(node.table())
            case Target.NAMED_TABLE:
                self._check_name(node.tableName())
            case Target.DATABASE:
                self._check_database(node.databaseName())
            case Target.CHILD:
                for child in _items(node.children()):
                    self._check_child(child)

    def _check_set(self, node: Any) -> None:
        if not node.kv().isDefined():
            self._refuse("SET: ask for one setting, or for all that are known by SET -v")
        pair = node.kv().get()
        key, value = pair.productElement(0), pair.productElement(1)
        if key not in (SETTINGS if value.isDefined() else SETTINGS | SHOWN_SETTINGS):
            self._refuse(f"SET {key}: this setting is not a client's")

    def _check_relations(self, plan: Any) -> None:
        """Check what each name in a query resolves to; the relations of a published view are not checked."""
        nodes = [plan]
        while nodes:
            node = nodes.pop()
            for expression in _items(node.expressions()):
                if expression.find(self._file_expression).isDefined():
                    self._refuse("input_file_name: where the files of a table are is not published")
            match node.getClass().getSimpleName():
                case "View":
                    self._check_entry(node.desc())
                    continue
                case "LogicalRelation":
                    # without an entry it is Spark's or Delta's own: files by their path are off
                    if node.catalogTable().isDefined():
                        entry = node.catalogTable().get()
                        self._check_entry(entry)
                        self._check_columns(
                            node, node.relation().schema(), entry.identifier().table()
                        )
                        self._check_version(node.relation(), entry.identifier().table())
                case "HiveTableRelation":
                    self._check_entry(node.tableMeta())
                case "DataSourceV2Relation":
                    self._check_table(node.table())
                    self._check_columns(node, node.table().schema(), node.table().name())
            nodes.extend(_items(node.children()))

    def _check_version(self, relation: Any, name: str) -> None:
        """Refuse rows that are gone: a Delta table as it was, or its changes, which options of a query ask for too."""
        if relation.getClass().getName() == _CHANGE_FEED:
            self._refuse(f"{name}: changes of a table are not published")
        if self._files.isInstance(relation):
            location = relation.location()
            if location.getClass().getName() == _DELTA_FILES and location.isTimeTravelQuery():
                self._refuse(f"{name}: earlier versions of a table are not published")

    def _check_columns(self, node: Any, schema: Any, name: str) -> None:
        """Refuse hidden columns, such as `_metadata` with the path of a row's file: Spark adds those that are named."""
        if node.output().size() > schema.size():
            self._refuse(f"{name}: where the files of a table are is not published")

    def _check_child(self, child: Any) -> None:
        """Check what a command is about."""
        match child.getClass().getSimpleName():
            case "ResolvedTable":
                self._check_table(child.table())
            case "ResolvedPersistentView":
                self._check_entry(child.metadata())
            case "ResolvedNamespace":
                if GLOBAL_VIEWS in child.namespace().mkString("\n").lower().split("\n"):
                    self._refuse(f"{GLOBAL_VIEWS}: nothing in it is published")
            case name:
                self._refuse(f"{name}: this is not published")

    def _check_table(self, table: Any) -> None:
        """A table of Spark's second interface: Delta's, or one of the session catalog."""
        match table.getClass().getSimpleName():
            case "DeltaTableV2":
                entry = table.catalogTable()
                if not entry.isDefined():
                    self._refuse("this server does not read tables by their path")
                self._check_entry(entry.get())
            case "V1Table":
                self._check_entry(table.v1Table())
            case _:
                self._refuse(f"{table.name()}: this is not published")

    def _check_name(self, name: Any) -> None:
        """A table's name in the session catalog."""
        database = name.database()
        if not database.isDefined() or not self._catalog.tableExists(database.get(), name.table()):
            self._refuse(f"{name.table()}: this is not published")
        self._check_entry(self._catalog.getTable(database.get(), name.table()))

    def _check_database(self, name: Any) -> None:
        if not isinstance(name, str):
            name = name.get() if name.isDefined() else ""
        if name.lower() == GLOBAL_VIEWS:
            self._refuse(f"{GLOBAL_VIEWS}: nothing in it is published")

    def _check_entry(self, entry: Any) -> None:
        """An entry of Spark's session catalog."""
        if not entry.properties().contains(PUBLISHED):
            self._refuse(f"{entry.identifier().table()}: this is not published")

    def _refuse(self, reason: str) -> NoReturn:
        error = self._jvm.java.lang.SecurityException(f"not allowed: {reason}")
        raise Py4JJavaError(reason, error)

    class Java:
        """What py4j implements in Java."""

        implements: ClassVar = ["scala.Function1"]


def _items(sequence: Any) -> list[Any]:
    """The elements of a scala.Seq."""
    return [sequence.apply(index) for index in range(sequence.size())]


def _catalog_keys(conf: Any) -> set[str]:
    """The settings that define catalogs beside Spark's own."""
    keys = conf.getAllConfs().keys().mkString("\n").split("\n")
    return {
        key
        for key in keys
        if key.startswith(CATALOGS) and key != OWN_CATALOG and not key.startswith(f"{OWN_CATALOG}.")
    }


def _refusing(jvm: Any, name: str) -> Any:
    """Make a scala.Function1 that throws."""
    handles, java_class = jvm.java.lang.invoke.MethodHandles, jvm.java.lang.Class
    anything = java_class.forName("java.lang.Object")
    error = java_class.forName("java.lang.SecurityException")
    reason = jvm.java.lang.SecurityException(f"not allowed: {name}: not on this server")
    throwing = handles.throwException(anything, error).bindTo(reason)
    proxies = jvm.java.lang.invoke.MethodHandleProxies
    return proxies.asInterfaceInstance(
        java_class.forName("scala.Function1"), handles.dropArguments(throwing, 0, [anything])
    )


def _instance_of(jvm: Any, names: Sequence[str]) -> Any:
    """Make a scala.Function1 that returns whether something is of one of the classes, without a call to Python."""
    handles, function = jvm.java.lang.invoke.MethodHandles, "scala.Function1"
    anything = jvm.java.lang.Class.forName("java.lang.Object")
    true = handles.dropArguments(handles.constant(jvm.java.lang.Boolean.TYPE, True), 0, [anything])
    either, *others = (_is_instance(jvm, name) for name in names)
    for other in others:
        either = handles.guardWithTest(other, true, either)
    proxies = jvm.java.lang.invoke.MethodHandleProxies
    return proxies.asInterfaceInstance(jvm.java.lang.Class.forName(function), either)


def _is_instance(jvm: Any, name: str) -> Any:
    java_class = jvm.java.lang.Class
    kind = jvm.java.lang.invoke.MethodType.methodType(
        jvm.java.lang.Boolean.TYPE, java_class.forName("java.lang.Object")
    )
    lookup = jvm.java.lang.invoke.MethodHandles.publicLookup()
    handle = lookup.findVirtual(java_class.forName("java.lang.Class"), "isInstance", kind)
    return handle.bindTo(java_class.forName(name, True, _class_loader(jvm)))


def _class_loader(jvm: Any) -> Any:
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _nothing_to_check(jvm: Any) -> Any:
    """Make a scala.Function1 that returns Unit."""
    java_class, handles = jvm.java.lang.Class, jvm.java.lang.invoke.MethodHandles
    anything = java_class.forName("java.lang.Object")
    unit = handles.constant(anything, jvm.scala.runtime.BoxedUnit.UNIT)
    done = handles.dropArguments(unit, 0, [anything])
    proxies = jvm.java.lang.invoke.MethodHandleProxies
    return proxies.asInterfaceInstance(java_class.forName("scala.Function1"), done)
