"""Starts and stops Spark's Thrift server (HiveServer2's protocol) in the Java process of a session.

Its settings are Java's system properties: the part that logs users in reads a HiveConf of its own, which sees
nothing else. They are taken back afterwards.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.catalog.errors import ConfigError
from penstock.connector.spark.internals import java_session, jvm_of

__all__ = ["ThriftServer", "class_path_conf", "hive_properties"]

CONNECT_TIMEOUT_S = 20.0
HOST = "127.0.0.1"
SPARE_THREADS = 16
"""For connections of other processes, which do not get in."""


def class_path_conf(jars: list[Path]) -> dict[str, str]:
    """Settings for the start of Spark: a connection that names a database loads Delta's catalog with Hive's class
    loader, which knows the class path only, not `spark.jars`.
    """
    return {"spark.driver.extraClassPath": ":".join(str(jar) for jar in jars)}


def hive_properties(*, log_in_url: str, scratch: Path, connections: int) -> dict[str, str]:
    """Return Hive's properties for what is served: on the loopback interface, to the front of this process alone.

    `log_in_url` is the LDAP server that knows the front's password. Port 0 lets the server take any that is free, in
    the moment in which it listens: one that was looked for before Spark starts may be some connection's by then.
    """
    return {
        "hive.server2.transport.mode": "binary",
        "hive.server2.thrift.bind.host": HOST,
        "hive.server2.thrift.port": "0",
        "hive.server2.thrift.max.worker.threads": str(connections + SPARE_THREADS),
        "hive.server2.use.SSL": "false",
        "hive.server2.authentication": "LDAP",
        "hive.server2.authentication.ldap.url": log_in_url,
        # statements run as the server's user in any case: no other account of the machine is looked up
        "hive.server2.enable.doAs": "false",
        "hive.server2.allow.user.substitution": "false",
        "hive.server2.logging.operation.enabled": "false",
        "hive.exec.scratchdir": str(scratch / "scratch"),
        "hive.exec.local.scratchdir": str(scratch / "local"),
        "hive.downloaded.resources.dir": str(scratch / "resources"),
        "hive.querylog.location": str(scratch / "log"),
        "derby.stream.error.file": str(scratch / "derby.log"),
    }


class ThriftServer:
    """A Thrift server that runs while it is entered. Raises ConfigError when it does not come up."""

    def __init__(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        self._session = java_session(spark)
        self._jvm = jvm_of(spark)
        self._properties = dict(properties)
        self._server: Any = None

    @property
    def port(self) -> int:
        """Where it listens."""
        listening = (s for s in self._server.getServices() if s.getName().startswith("Thrift"))
        return int(next(listening).getPortNumber())

    @property
    def hive_conf(self) -> Any:
        """The server's HiveConf, which names its metastore."""
        return self._server.getHiveConf()

    def __enter__(self) -> Self:
        system = self._jvm.java.lang.System
        for key, value in self._properties.items():
            system.setProperty(key, value)
        thrift = self._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
        try:
            self._server = thrift.startWithSparkSession(self._session, False)
            self._connect()
        except (Py4JJavaError, OSError) as error:
            self.stop()
            raise ConfigError(f"Spark's Thrift server did not start: {_reason(error)}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Refuse new connections, and end the open ones."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        system = self._jvm.java.lang.System
        for key in self._properties:
            system.clearProperty(key)

    def _connect(self) -> None:
        """Find out whether it listens: a server that cannot only logs so, on a thread of its own."""
        socket.create_connection((HOST, self.port), CONNECT_TIMEOUT_S).close()


def _reason(error: Py4JJavaError | OSError) -> str:
    """All messages of a Java error, outermost first: the failure, then its causes."""
    if isinstance(error, OSError):
        return str(error)
    said: list[str] = []
    cause = error.java_exception
    while cause is not None:
        said.append(str(cause.getMessage() or cause))
        cause = cause.getCause()
    return ": ".join(said)
