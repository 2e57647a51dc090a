"""The statements that ask or tell the session something: SHOW, DESCRIBE, jars, jobs, modules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.catalog.errors import Span
from penstock.catalog.model.identifier import Identifier


class Shown(StrEnum):
    """What SHOW lists, beside tables and views."""

    CATALOGS = "CATALOGS"
    CURRENT_CATALOG = "CURRENT CATALOG"
    DATABASES = "DATABASES"
    CURRENT_DATABASE = "CURRENT DATABASE"
    MATERIALIZED_TABLES = "MATERIALIZED TABLES"
    COLUMNS = "COLUMNS"
    PARTITIONS = "PARTITIONS"
    FUNCTIONS = "FUNCTIONS"
    USER_FUNCTIONS = "USER FUNCTIONS"
    PROCEDURES = "PROCEDURES"
    MODULES = "MODULES"
    FULL_MODULES = "FULL MODULES"
    JARS = "JARS"
    JOBS = "JOBS"
    SECRETS = "SECRETS"


@dataclass(frozen=True, slots=True, kw_only=True)
class LikePattern:
    """[NOT] LIKE | ILIKE 'pattern': % is any text, _ any character."""

    pattern: str
    negated: bool = False
    ignore_case: bool = False

    def keeps(self, name: str) -> bool:
        """Return whether a name is to be shown."""
        parts = ({"%": ".*", "_": "."}.get(char, re.escape(char)) for char in self.pattern)
        flags = re.DOTALL | (re.IGNORECASE if self.ignore_case else 0)
        return bool(re.fullmatch("".join(parts), name, flags)) != self.negated


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowList:
    """SHOW what [FROM place] [PARTITION (...)] [[NOT] LIKE 'pattern'].

    `catalog` and `database` are the place, or the current one. `table` is that of COLUMNS and PARTITIONS, `partition`
    the values of partition columns to look for.
    """

    what: Shown
    catalog: str
    database: str
    table: Identifier | None = None
    partition: tuple[tuple[str, str], ...] = ()
    like: LikePattern | None = None
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCatalog:
    """DESCRIBE CATALOG [EXTENDED] name."""

    catalog: str
    extended: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDatabase:
    """DESCRIBE DATABASE [EXTENDED] [catalog.]name."""

    catalog: str
    database: str
    extended: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFunction:
    """DESCRIBE FUNCTION [EXTENDED] name, of a user's function or a built-in one (whose name stands alone)."""

    identifier: Identifier
    extended: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeJob:
    """DESCRIBE JOB 'name'. A job's name, `<pipeline>/<sink>`, is its id."""

    job: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopJob:
    """STOP JOB 'name' [WITH SAVEPOINT]: the batch in flight is finished; the job resumes from its checkpoint."""

    job: str
    savepoint: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddJar:
    """ADD JAR 'path': a local path or a URL that Spark can read."""

    path: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseModules:
    """USE MODULES core: there is no other module, so it changes nothing."""

    span: Span = field(compare=False)
