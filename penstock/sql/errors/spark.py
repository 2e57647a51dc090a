"""Turns what Spark throws into Penstock's errors: finds ours inside its text, else keeps the one line that matters.

Pure text work on exceptions; decides which failures a restart cannot mend. Called by the supervisor and the CLI.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from penstock.catalog.errors import (
    InputError,
    PenstockError,
    QueryFailedError,
    RunError,
    UnsupportedError,
    decode_failure,
)

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException

# What Spark adds around the reason: its own wrapper, then reports that begin one of these ways.
_WRAPPER = re.compile(r"^\[STREAM_FAILED\].*?terminated with exception:\s*", re.DOTALL)
_PY4J = re.compile(r"^An error occurred while calling [\w.]+\.\s*:\s*")
_REPORT = re.compile(
    r"\n?=== Streaming Query ===|\n\s*at [\w.$/]+\(|\n+Driver stacktrace:|\n== SQL|\n== DataFrame|\nJVM stacktrace:"
)
_STATE = re.compile(r"\s*SQLSTATE: (\w{5})")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_JAVA_CLASS = re.compile(r"^(?:[a-z_][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error)?:\s*")
_LOST_TASK = re.compile(
    r"most recent failure: Lost task [^:]*?\(TID \d+\) \([^)]*\):\s*", re.DOTALL
)
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):")
_PYTHON_ERROR = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Exit)): (.*)$", re.MULTILINE
)

# What a query says by RAISE_ERROR, in words of its own, which may quote any error.
_RAISED = re.compile(r"(\[USER_RAISED_EXCEPTION\]).*(\s*SQLSTATE: P0001)", re.DOTALL)

# SQLSTATE classes of failures that come again with every attempt: wrong cardinality, bad data, constraint, syntax or
# a name that is not there, an unsupported feature, raised by the query itself (PostgreSQL's class P0).
_PERMANENT_CLASSES = frozenset({"21", "22", "23", "42", "0A", "P0"})
# Conditions whose SQLSTATE does not say so: a checkpoint that does not fit, or another runner in it.
_PERMANENT_CONDITIONS = (
    "STATE_STORE_",
    "STREAMING_STATEFUL_",
    "STREAMING_CHECKPOINT_",
    "CONCURRENT_STREAM_LOG_UPDATE",
)
# Python's own errors inside our reader or a function of the user: a bug, and a bug does not pass.
_BUGS = frozenset(
    {"AssertionError", "AttributeError", "ImportError", "IndexError", "KeyError", "NameError"}
) | {
    "ModuleNotFoundError",
    "NotImplementedError",
    "TypeError",
    "ValueError",
}
_JVM_GONE = (
    "Py4JNetworkError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "BrokenPipeError",
)

# What Spark says of a worker that is gone, with the last words of Python's fault handler where it had any.
_PYTHON_GONE = re.compile(
    r"Python worker exited unexpectedly \(crashed\)(?:: Fatal Python error: (?P<why>[^\n]+))?"
)
# What Spark says of one that was not there after ten seconds (PythonWorkerFactory).
_PYTHON_LATE = re.compile(r"Python worker (?:failed )?to connect back")

# Conditions that only say that something below them failed.
_WRAPPING_CONDITIONS = frozenset({"STREAM_FAILED", "TASK_WRITE_FAILED", "FAILED_EXECUTE_UDF"})
_NO_REASON = "the query failed and Spark gave no reason"

DEEPEST_CAUSE = 20
"""Bound of a chain of causes; a longer one is a cycle."""


class EngineGoneError(RunError):
    """Spark's Java process has ended: nothing runs in this process any more."""

    code: ClassVar[str] = QueryFailedError.code

    permanent = True


class SlowStartError(RunError):
    """A Python process that Spark started was not there in time."""

    code: ClassVar[str] = QueryFailedError.code


def translate(error: BaseException) -> PenstockError:
    """Return the Penstock error that `error` is, carries in its text, or amounts to (QueryFailedError)."""
    if isinstance(error, PenstockError):
        return error
    layers = _layers(error)
    text = "\n".join(layers)
    ours = decode_failure(text)
    if ours is not None:
        return ours
    if _is_gone(error):
        return EngineGoneError(
            "Spark's Java process ended unexpectedly",
            hint="was it out of memory? Give it more with --conf spark.driver.memory=4g",
        )
    text = _RAISED.sub(r"\1\2", text)
    gone = _PYTHON_GONE.search(text)
    if gone is not None:
        why = f" ({gone['why'].strip()})" if gone["why"] else ""
        return QueryFailedError(
            f"a Python worker of Spark ended unexpectedly{why}",
            hint="was it out of memory? Fewer records at a time need less: 'scan.max-records-per-batch'",
        )
    if _PYTHON_LATE.search(text):
        return SlowStartError(
            "the machine is short of CPU: a Python worker of Spark did not start within 10 s",
            hint="run fewer queries in one process, or give it more CPU",
        )
    refused = _refusal(error)
    if refused is not None:
        return refused
    reason, bug = _reason(_telling(layers))
    conditions = _CONDITION.findall(text)
    permanent = (
        bug
        or any(state[:2] in _PERMANENT_CLASSES for state in _STATE.findall(text))
        or any(condition.startswith(_PERMANENT_CONDITIONS) for condition in conditions)
    )
    return QueryFailedError(reason, hint=_hint(conditions), permanent=permanent)


def _refusal(error: BaseException) -> QueryFailedError | None:
    """Return the error for a query that Spark refuses, in our words: its analysis of the same query
    fails the same way each time.
    """
    layer: BaseException | None = error
    for _ in range(DEEPEST_CAUSE):
        if layer is None or type(layer).__name__ == "AnalysisException":
            break
        layer = getattr(layer, "_cause", None)
    if layer is None or type(layer).__name__ != "AnalysisException":
        return None
    found = as_input_error(layer)  # type: ignore[arg-type]  # found by its name, as Spark may not be loaded
    hint = _hint(_CONDITION.findall("\n".join(_layers(error))))
    return QueryFailedError(found.message, hint=hint or found.hint, permanent=True)


def _is_gone(error: BaseException) -> bool:
    """Return whether Spark's Java process is gone, by py4j's error; a Java exception may quote a
    record with the same text.
    """
    if type(error).__name__ in _JVM_GONE:
        return True
    return type(error).__name__ == "Py4JError" and "Answer from Java side is empty" in str(error)


def _layers(error: BaseException) -> list[str]:
    """Return the message of an error of Spark and those of its causes, outermost first."""
    layers: list[str] = []
    layer: BaseException | None = error
    while layer is not None and len(layers) < DEEPEST_CAUSE:
        layers.append(str(layer))
        layer = getattr(layer, "_cause", None)  # PySpark's; there is no public way to it
    return layers


def _telling(layers: list[str]) -> str:
    """Choose the most specific layer: the deepest with a message of Spark's own, else the deepest with any message.

    A sink's "task failed while writing rows" hides the task's reason; below Spark's message there is often only the
    name of a Java class.
    """
    worded = [layer for layer in layers if set(_CONDITION.findall(layer)) - _WRAPPING_CONDITIONS]
    python = [layer for layer in layers if _TRACEBACK.search(layer)]
    spoken = [layer for layer in layers if _reason(layer)[0] != _NO_REASON]
    return (python or worded or spoken or layers)[-1]


def is_permanent(error: PenstockError) -> bool:
    """Return whether starting again from the checkpoint would fail the same way."""
    return isinstance(error, InputError) or (isinstance(error, RunError) and error.permanent)


def _reason(text: str) -> tuple[str, bool]:
    """Find the sentence a person needs, and whether it is a Python bug."""
    python_errors = _PYTHON_ERROR.findall(text) if _TRACEBACK.search(text) else []
    if python_errors:
        kind, message = python_errors[-1]
        return f"{kind}: {message}".strip(), kind in _BUGS
    core = _PY4J.sub("", _WRAPPER.sub("", text.strip()))
    lost = _LOST_TASK.search(core)
    if lost is not None:
        core = core[lost.end() :]
    core = _JAVA_CLASS.sub("", _REPORT.split(core, maxsplit=1)[0].strip())
    core = _STATE.sub("", core)
    core = re.sub(rf"^{_CONDITION.pattern}\s*", "", core)
    return " ".join(core.split()) or _NO_REASON, False


def _hint(conditions: list[str]) -> str | None:
    for condition in conditions:
        if condition.startswith(("STATE_STORE_", "STREAMING_STATEFUL_")):
            return (
                "the query changed so that the state in its checkpoint no longer fits; go back to the old query, or "
                "start over with --from-scratch, which sets the checkpoint aside, or under another SET 'pipeline.name'"
            )
        if condition == "CONCURRENT_STREAM_LOG_UPDATE":
            return "another runner writes to the same checkpoint; stop one of them"
        if condition == "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR":
            return "run again with --verbose for the whole report"
    return None


# --- analysis errors ---

_PLAN = re.compile(r";?\n'?[+A-Z:].*", re.DOTALL)
_CLASS = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_ANY_STATE = re.compile(r"\s*SQLSTATE: \w+")
_VIEW = re.compile(r"`?penstock_[0-9a-f]{8}_w?\d+(_late)?`?\.?")
# UnsupportedOperationChecker, where StreamingJoinHelper found no bound of the state
_OUTER_JOIN = re.compile(r"Stream-stream (Left|Right|Full)Outer join .* is not supported without")

# SparkStrategies.StreamingJoinStrategy
_UNEQUAL_JOIN = re.compile(r"Stream-stream join without equality predicate")


def as_input_error(error: AnalysisException) -> InputError:
    """Translate an analysis error of a generated query: what is wrong, without Spark's plans and class names."""
    text = _ANY_STATE.sub(
        "", _CLASS.sub("", _PLAN.sub("", error.getMessage() or str(error)))
    ).strip()
    message = _VIEW.sub("", text)
    if _OUTER_JOIN.search(message):
        return UnsupportedError(
            "Spark cannot tell from its condition how long this outer join has to keep rows",
            hint="bound both times by an interval in days or less, ON a.id = b.id AND b.ts BETWEEN a.ts AND a.ts + "
            "INTERVAL '1' HOUR, with a WATERMARK on both; an INNER JOIN takes any condition",
        )
    if _UNEQUAL_JOIN.search(message):
        return UnsupportedError(
            "a join of streams without an equality between their columns is not supported",
            hint="join ON a.x = b.x, with the other conditions behind AND",
        )
    condition = error.getCondition() or ""
    if "STREAMING" in condition or "UNSUPPORTED" in condition:
        return UnsupportedError(f"Spark cannot run this query as a stream: {message}")
    return InputError(message)
