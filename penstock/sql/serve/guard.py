"""Keeps clients to reading: a check rule that Spark runs on every statement of their sessions, after analysis.

Spark's Thrift server has no rights of its own: whoever connects could drop tables, read any file of the server's user
by `SELECT * FROM text.`/path``, run programs by TRANSFORM and static Java methods by reflect(). Sessions of the
process itself carry a mark with a random value in their settings; streaming queries get a copy of it, a client's
session starts without. No JVM code: Spark takes any scala.Function1, and py4j makes one of a Python object.
"""

from __future__ import annotations

import secrets
from typing import Any, ClassVar

from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

__all__ = ["GUARD_CONF", "allow_only_reading", "is_reading"]

GUARD_CONF = {"spark.sql.runSQLOnFiles": "false"}
"""Settings that Spark must be started with: a client's RESET goes back to them."""

MARK = "spark.penstock.serve.own"
CATALOGS = "spark.sql.catalog."
FILES = "spark.sql.runSQLOnFiles"
_READING = ("Show", "Describe", "Explain")
_SESSION = frozenset(
    {
        "ResetCommand",
        "SetCatalogAndNamespace",
        "SetCatalogCommand",
        "SetCommand",
        "SetNamespaceCommand",
    }
)
_REFLECTION = ("reflect", "java_method", "try_reflect")


def is_reading(command: str) -> bool:
    """Tell by the class name of one of Spark's commands whether it changes nothing but its own session."""
    return command.startswith(_READING) or command in _SESSION


def allow_only_reading(spark: SparkSession) -> None:
    """Guard every session that begins from now on, but this one and copies of it. Once in a process."""
    jvm, gateway = spark._jvm, spark.sparkContext._gateway  # noqa: SLF001  PySpark has no public way to its JVM
    assert jvm is not None, "Spark runs"
    assert gateway is not None, "Spark runs"
    # a refusal is an exception of Java's, which a client is to get as it is
    gateway.callback_server_parameters.propagate_java_exceptions = True
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    registry = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    for name in _REFLECTION:
        registry.dropFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))
    mark = secrets.token_hex(16)
    own = spark._jsparkSession  # noqa: SLF001
    own.conf().set(MARK, mark)
    own.conf().set(FILES, "true")
    catalogs = frozenset(_catalog_keys(own.sessionState().conf()))
    own.extensions().injectCheckRule(_RuleBuilder(jvm, mark, catalogs))


class _RuleBuilder:
    """Gives each session its rule: Spark calls it once a session, before its first statement is checked."""

    def __init__(self, jvm: Any, mark: str, catalogs: frozenset[str]) -> None:
        self._mark = mark
        self._nothing = _nothing_to_check(jvm)
        self._rule = _ReadOnlyRule(jvm, catalogs)

    def apply(self, session: Any) -> Any:
        """Choose the rule of a session."""
        return self._nothing if session.conf().get(MARK, "") == self._mark else self._rule

    class Java:
        """What py4j implements in Java."""

        implements: ClassVar = ["scala.Function1"]


class _ReadOnlyRule:
    """Refuses a plan by throwing. Holds no session: it would never be freed, as each holds the other over py4j."""

    def __init__(self, jvm: Any, catalogs: frozenset[str]) -> None:
        self._jvm = jvm
        self._catalogs = catalogs
        self._suspicious = _instance_of(
            jvm,
            "org.apache.spark.sql.catalyst.plans.logical.Command",
            "org.apache.spark.sql.catalyst.plans.logical.ScriptTransformation",
        )

    def apply(self, plan: Any) -> Any:
        """Check an analysed plan; called on the thread that analyses it, for Spark's inner queries too."""
        conf = self._jvm.org.apache.spark.sql.internal.SQLConf.get()
        if conf.runSQLonFile():
            self._refuse(f"{FILES} = true: this server does not read files by their path")
        found = plan.find(self._suspicious)
        if found.isDefined():
            self._check(found.get())
        strange = _catalog_keys(conf) - self._catalogs
        if strange:
            self._refuse(f"{min(strange)}: a client defines no catalogs on this server")
        return self._jvm.scala.runtime.BoxedUnit.UNIT

    def _check(self, node: Any) -> None:
        name = node.getClass().getSimpleName()
        if name == "ScriptTransformation":
            self._refuse("TRANSFORM: this server runs no programs")
        if not is_reading(name):
            self._refuse(f"{name}: this server is for reading; definitions and rows are Penstock's")
        if name == "SetCommand" and node.kv().isDefined():
            key = node.kv().get().productElement(0)
            if key == FILES or key.startswith(CATALOGS):
                self._refuse(f"SET {key}: not on this server")

    def _refuse(self, reason: str) -> None:
        error = self._jvm.java.lang.SecurityException(f"not allowed: {reason}")
        raise Py4JJavaError(reason, error)

    class Java:
        """What py4j implements in Java."""

        implements: ClassVar = ["scala.Function1"]


def _catalog_keys(conf: Any) -> set[str]:
    """The settings that define catalogs."""
    keys = conf.getAllConfs().keys().mkString("\n").split("\n")
    return {key for key in keys if key.startswith(CATALOGS)}


def _instance_of(jvm: Any, first: str, second: str) -> Any:
    """Make a scala.Function1 that tells whether something is of one of two classes, without a call to Python."""
    handles, function = jvm.java.lang.invoke.MethodHandles, "scala.Function1"
    one, other = (_is_instance(jvm, name) for name in (first, second))
    anything = jvm.java.lang.Class.forName("java.lang.Object")
    true = handles.dropArguments(handles.constant(jvm.java.lang.Boolean.TYPE, True), 0, [anything])
    either = handles.guardWithTest(one, true, other)
    proxies = jvm.java.lang.invoke.MethodHandleProxies
    return proxies.asInterfaceInstance(jvm.java.lang.Class.forName(function), either)


def _is_instance(jvm: Any, name: str) -> Any:
    java_class = jvm.java.lang.Class
    kind = jvm.java.lang.invoke.MethodType.methodType(
        jvm.java.lang.Boolean.TYPE, java_class.forName("java.lang.Object")
    )
    lookup = jvm.java.lang.invoke.MethodHandles.publicLookup()
    handle = lookup.findVirtual(java_class.forName("java.lang.Class"), "isInstance", kind)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return handle.bindTo(java_class.forName(name, True, loader))


def _nothing_to_check(jvm: Any) -> Any:
    """Make a scala.Function1 that gives Unit."""
    java_class, handles = jvm.java.lang.Class, jvm.java.lang.invoke.MethodHandles
    anything = java_class.forName("java.lang.Object")
    unit = handles.constant(anything, jvm.scala.runtime.BoxedUnit.UNIT)
    done = handles.dropArguments(unit, 0, [anything])
    proxies = jvm.java.lang.invoke.MethodHandleProxies
    return proxies.asInterfaceInstance(java_class.forName("scala.Function1"), done)
