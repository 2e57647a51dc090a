"""Translate errors of Delta and Hadoop to those of Penstock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

from penstock.catalog.errors import (
    ConfigError,
    DefinitionError,
    InputError,
    OptionError,
    SinkError,
    StateMismatchError,
    decode_failure,
)

__all__ = ["translate_errors"]

_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_JAVA_CLASS = re.compile(r"^(?:[a-z_][\w$]*\.)+[A-Z][\w$]*:\s*")
_BROKEN_RULE = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
_NO_FILE_SYSTEM = re.compile(
    r"No FileSystem for scheme|ClassNotFoundException: Class \S*FileSystem"
)


@contextmanager
def translate_errors(location: str) -> Iterator[None]:
    """Translate what Spark raises about the table at `location`.

    Raises OptionError for a property, ConfigError for a missing file system, StateMismatchError for files in the way,
    DefinitionError for what Delta cannot hold, SinkError for a row that breaks NOT NULL and for transient errors; and
    Penstock's own errors as they were, where a task raised them.
    """
    try:
        yield
    except (AnalysisException, IllegalArgumentException) as error:
        raise _refusal(error, location) from error
    except Py4JJavaError as error:
        # PySpark translates some Java exceptions, these are the others: I/O
        raised = decode_failure(str(error))
        if raised is not None:
            raise raised from error
        text = str(error.java_exception.toString())
        if _BROKEN_RULE in text:
            raise SinkError(
                f"the Delta table at {location} does not take a row: {_sentence(text)}",
                hint="filter such rows out, or declare the column without NOT NULL",
            ) from error
        if _NO_FILE_SYSTEM.search(text):
            raise ConfigError(
                f"Spark has no file system for {location}",
                hint="add its jars, such as --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:<Hadoop's version>",
            ) from error
        raise SinkError(
            f"the Delta table at {location} cannot be reached: {_sentence(text)}"
        ) from error


def _refusal(error: PySparkException, location: str) -> InputError:
    condition, sentence = error.getCondition() or "", _sentence(str(error))
    if isinstance(error, IllegalArgumentException) or "CONFIGURATION" in condition:
        return OptionError(
            f"the Delta table at {location} cannot have these properties: {sentence}",
            hint="options that begin with 'delta.' are Delta table properties, with Delta's names and values",
        )
    if condition == "DELTA_MISSING_DELTA_TABLE":
        return StateMismatchError(
            f"at {location} there are files, but no Delta table",
            hint="set an empty or new 'path', or turn the files into a Delta table with CONVERT TO DELTA",
        )
    return DefinitionError(f"Delta refuses the table at {location}: {sentence}")


def _sentence(text: str) -> str:
    """Return the first line, without conditions and class names."""
    line = text.strip().split("\n", 1)[0]
    return re.sub(r"\s*SQLSTATE: \w+", "", _CONDITION.sub("", _JAVA_CLASS.sub("", line))).strip()
