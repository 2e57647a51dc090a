"""What clients are told of errors."""

from __future__ import annotations

from penstock.catalog.errors import BadRecordError, encode_failure
from penstock.sql.serve.hive_calls import MAX_LENGTH, client_text

PYTHON = """Job aborted due to stage failure: Task 0 failed: org.apache.spark.api.python.PythonException:
Traceback (most recent call last):
  File "/srv/app/.venv/lib/python3.11/site-packages/pyspark/worker.py", line 3000, in main
    process()
  File "/srv/app/pipeline.py", line 12, in f
    raise ValueError("no such thing")
ValueError: no such thing

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:561)
\tat java.base/java.lang.Thread.run(Thread.java:840)
\t... 3 more
Driver stacktrace:"""


def test_stacks_of_python_and_java_are_left_out() -> None:
    """What went wrong stays."""
    told = client_text(PYTHON)

    assert "ValueError: no such thing" in told
    assert "/srv" not in told
    assert "PythonRunner" not in told
    assert "Thread" not in told


def test_an_error_of_penstock_s_is_its_message_and_hint() -> None:
    """Whatever Spark has put around it."""
    error = BadRecordError("row 3 of notes cannot be read", hint="set 'bad-records'")

    assert (
        client_text(f"Task failed: {encode_failure(error)}\n{PYTHON}")
        == "row 3 of notes cannot be read; set 'bad-records'"
    )


def test_a_long_error_is_cut() -> None:
    """A plan of a thousand columns is no message."""
    assert len(client_text("x" * 100_000)) == MAX_LENGTH
