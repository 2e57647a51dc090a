"""Start py4j's callback server, by which Java calls Python, so that only Spark's own Java process may call it.

Calls from Python to Java carry a token; PySpark requires none in the other direction, so that every account of
the machine could call what Python has passed to Java (a function of `foreachBatch`, a rule of `penstock serve`)
by any of its methods.
"""

from __future__ import annotations

import secrets
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark.java_gateway import ensure_callback_server_started

from penstock.connector.spark.internals import callback_server_runs, gateway_of, gateway_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SERVER, CLIENT = "py4j.JavaServer", "py4j.PythonClient"
"""The classes that PySpark uses unless PYSPARK_PIN_THREAD is false: then there is no client that takes a token."""

_CONNECTION_AGE_S = 30
"""How long py4j's client keeps an unused connection; its own value."""

_starting = Lock()


def start_callback_server(spark: SparkSession) -> None:
    """Open the port, with a token that Java's side knows. One that was opened before is left as it is."""
    gateway = gateway_of(spark)
    with _starting:
        if callback_server_runs(gateway):
            return
        server = gateway_server(gateway)
        client = server.getCallbackClient()
        known = (server.getClass().getName(), client.getClass().getName()) == (SERVER, CLIENT)
        token = secrets.token_hex(32) if known else None
        gateway.callback_server_parameters.auth_token = token
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        if token is not None:
            _give(token, gateway, server)


def _give(token: str, gateway: Any, server: Any) -> None:
    """Pass the token to Java's side: py4j's client forgets its own when the port is set (`copyWith`)."""
    java, jvm = server.getGateway(), gateway.jvm
    without = java.getCallbackClient()
    client = jvm.py4j.PythonClient(
        java,
        None,
        without.getPort(),
        without.getAddress(),
        _CONNECTION_AGE_S,
        jvm.java.util.concurrent.TimeUnit.SECONDS,
        jvm.javax.net.SocketFactory.getDefault(),
        server,
        without.isMemoryManagementEnabled(),
        without.getReadTimeout(),
        token,
    )
    field = jvm.java.lang.Class.forName("py4j.Gateway").getDeclaredField("cbClient")
    field.setAccessible(True)
    field.set(java, client)
