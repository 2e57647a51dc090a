"""What is made of the exceptions that Spark throws. The texts are Spark 4.2's, shortened where they repeat."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from penstock.catalog.errors import (
    BadRecordError,
    QueryFailedError,
    UnknownObjectError,
    UnsupportedError,
    encode_failure,
)
from penstock.sql.errors.spark import as_input_error, is_permanent, translate

REPORT = """ SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 6b83e6e4, runId = 8b294440]
Current Committed Offsets: {}

Current State: ACTIVE
Thread State: RUNNABLE
"""
STREAM = "[STREAM_FAILED] Query [id = 6b83e6e4, runId = 8b294440] terminated with exception: "
DIVISION = (
    "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0. SQLSTATE: 22012\n"
    "== SQL (line 1, position 1) ==\n1/(value-value) as x\n^^^^^^^^^^^^^^^\n"
)
STATE = (
    "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema.\n"
    "Please check number and type of fields. SQLSTATE: XXKST"
)
STATE_MESSAGE = (
    "Provided key schema does not match existing state key schema. "
    "Please check number and type of fields."
)
PYTHON = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in "
    "stage 1.0 (TID 7) (127.0.0.1 executor driver): org.apache.spark.api.python.PythonException: "
    'Traceback (most recent call last):\n  File "task.py", line 9, in read\n    x\n{error}\n\n'
    "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(Runner.scala:581)\n"
    "Driver stacktrace:"
)
LOST_TASK = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in "
    "stage 1.0 (TID 7) (127.0.0.1 executor driver): java.io.IOException: No space left on device\n"
    "\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)\n\nDriver stacktrace:"
)
START = (
    "An error occurred while calling o140.start.\n: java.io.IOException: mkdir of file:/proc/nope/x failed\n"
    "\tat org.apache.hadoop.fs.FileSystem.primitiveMkdir(FileSystem.java:1414)\n"
    "\tat org.apache.hadoop.fs.DelegateToFileSystem.mkdir(DelegateToFileSystem.java:190)\n"
)


@pytest.mark.parametrize(
    ("text", "message", "permanent"),
    [
        (
            STREAM + DIVISION + REPORT,
            "Division by zero. Use `try_divide` to tolerate divisor being 0.",
            True,
        ),
        (
            STREAM + "Python worker failed to connect back." + REPORT,
            "the machine is short of CPU: a Python worker of Spark did not start within 10 s",
            False,
        ),
        (
            STREAM + STATE + REPORT,
            STATE_MESSAGE,
            True,
        ),
        (STREAM + PYTHON.format(error="OSError: disk full") + REPORT, "OSError: disk full", False),
        (STREAM + PYTHON.format(error="KeyError: 'amount'") + REPORT, "KeyError: 'amount'", True),
        (STREAM + LOST_TASK + REPORT, "No space left on device", False),
        (START, "mkdir of file:/proc/nope/x failed", False),
        ("", "the query failed and Spark gave no reason", False),
    ],
)
def test_one_line_of_sparks_report_is_kept(text, message, permanent):
    """The reason stays; ids, plans and stack traces go; SQLSTATE decides whether a restart could help."""
    error = translate(RuntimeError(text))

    assert error.code == QueryFailedError.code
    assert error.message == message
    assert is_permanent(error) is permanent


@pytest.mark.parametrize(
    "told",
    [
        "Python worker failed to connect back.",
        "Python worker exited unexpectedly (crashed): Fatal Python error: Aborted",
        "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] not mine [CONCURRENT_STREAM_LOG_UPDATE]",
    ],
)
def test_what_a_query_raises_is_its_own_text_whatever_that_quotes(told):
    """RAISE_ERROR: no worker is gone, no checkpoint does not fit, and no restart helps."""
    error = translate(
        RuntimeError(f"{STREAM}[USER_RAISED_EXCEPTION] {told} SQLSTATE: P0001{REPORT}")
    )

    assert type(error) is QueryFailedError
    assert (error.message, error.hint) == (told, None)
    assert is_permanent(error)


def test_an_error_of_ours_is_found_inside_any_text():
    """It comes back with its class, message and hint."""
    carried = encode_failure(
        BadRecordError("offset 7 is no JSON", hint="'json.ignore-parse-errors' = 'true'")
    )

    error = translate(
        RuntimeError(STREAM + PYTHON.format(error=f"RuntimeError: x {carried}") + REPORT)
    )

    assert isinstance(error, BadRecordError)
    assert (error.message, error.hint) == (
        "offset 7 is no JSON",
        "'json.ignore-parse-errors' = 'true'",
    )


class Layered(Exception):
    """As PySpark's exceptions: with the one that caused it."""

    def __init__(self, text, cause=None):
        super().__init__(text)
        self._cause = cause


WRITING = "[TASK_WRITE_FAILED] Task failed while writing rows to file:/x. SQLSTATE: 58030"


def test_what_a_sinks_error_hides_is_found_below_it():
    """Spark says that a task failed while writing; the task's own error is its cause."""
    carried = encode_failure(BadRecordError("offset 7 is no JSON"))
    inner = Layered(f"An exception was thrown from the Python worker: {carried}")

    assert isinstance(translate(Layered(STREAM + WRITING, Layered(WRITING, inner))), BadRecordError)


@pytest.mark.parametrize(
    ("inner", "message", "permanent"),
    [
        (Layered(DIVISION, Layered("java.lang.ArithmeticException")), "Division by zero.", True),
        (Layered("java.io.IOException: No space left on device"), "No space left on device", False),
        (None, "Task failed while writing rows to file:/x.", False),
    ],
)
def test_the_deepest_layer_that_says_something_is_the_reason(inner, message, permanent):
    """Not the wrapper, and not a bare class name below it."""
    error = translate(Layered(STREAM + WRITING + REPORT, Layered(WRITING, inner)))

    assert error.message.startswith(message)
    assert is_permanent(error) is permanent


def test_an_error_of_ours_stays_itself():
    """Nothing is wrapped twice."""
    error = UnknownObjectError("there is no table t")

    assert translate(error) is error
    assert is_permanent(error)


def test_a_checkpoint_that_does_not_fit_comes_with_the_way_out():
    """The message of the state store is followed by what to do."""
    error = translate(RuntimeError(STREAM + STATE + REPORT))

    assert "pipeline.name" in error.hint


def test_a_java_process_that_is_gone_is_not_waited_for():
    """No restart brings the JVM back."""
    error = translate(ConnectionRefusedError(111, "Connection refused"))

    assert is_permanent(error)
    assert "Java" in error.message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ": Fatal Python error: Aborted\n\nThread 0x00007f14 (most recent call first):",
            " (Aborted)",
        ),
        ("", ""),
    ],
)
def test_a_python_worker_that_is_gone_is_named(words: str, message: str) -> None:
    """Below Spark's words there is only the end of a stream; the next attempt may go well."""
    error = RuntimeError(
        f"org.apache.spark.SparkException: Python worker exited unexpectedly (crashed){words}"
    )
    error._cause = RuntimeError("java.io.EOFException")  # type: ignore[attr-defined]
    found = translate(error)

    assert found.message == f"a Python worker of Spark ended unexpectedly{message}"
    assert "memory" in (found.hint or "")
    assert not is_permanent(found)


def failed_stream(message: str) -> Exception:
    """What a query that Spark refuses when it starts ends with, as PySpark gives it."""
    refusal = AnalysisException(message=message)
    stream = StreamingQueryException(message=f"{STREAM}{message}{REPORT}")
    stream._cause = refusal  # type: ignore[attr-defined]  # as `CapturedException` keeps it
    return stream


def test_a_stream_that_spark_refuses_is_not_started_again() -> None:
    """Its analysis says the same each time; Spark's plan does not belong to the message."""
    join = "Stream-stream join without equality predicate is not supported;\nJoin Inner, (v#1L > v#2L)\n:- x"
    told = translate(failed_stream(join))
    other = translate(failed_stream("Queries with streaming sources must be fun;\nProject [x#1]"))

    assert (is_permanent(told), is_permanent(other)) == (True, True)
    assert (
        told.message
        == "a join of streams without an equality between their columns is not supported"
    )
    assert told.hint is not None
    assert other.message.endswith("Queries with streaming sources must be fun")


# --- what Spark says of a query that was generated, in words of the one that was written ---

OUTER = (
    "[STREAM_FAILED] Stream-stream LeftOuter join between two streaming DataFrame/Datasets is not supported without a "
    "watermark in the join keys, or a watermark on the nullable side and an appropriate range condition;"
)


def test_an_outer_join_without_a_bound_that_spark_sees_is_told_as_such() -> None:
    """With what a bound looks like."""
    error = as_input_error(AnalysisException(OUTER))

    assert isinstance(error, UnsupportedError)
    assert "how long this outer join" in error.message
    assert "AND b.ts BETWEEN a.ts AND" in (error.hint or "")
