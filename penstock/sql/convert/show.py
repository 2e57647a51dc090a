"""Convert SHOW and DESCRIBE of what is no table, and the statements about jars, jobs and modules."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import DefinitionError, UnknownObjectError, UnsupportedError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table, View
from penstock.sql.convert.names import find_object, function_identifier, identifier_of
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.show import (
    AddJar,
    DescribeCatalog,
    DescribeDatabase,
    DescribeFunction,
    DescribeJob,
    LikePattern,
    ShowList,
    Shown,
    StopJob,
    UseModules,
)
from penstock.sql.statements.statement import ShowCreate
from penstock.sql.syntax.nodes import PartitionSpec

DescribedThing = DescribeCatalog | DescribeDatabase | DescribeFunction | DescribeJob

MOST_PARTS = {
    Shown.DATABASES: 1,
    Shown.MATERIALIZED_TABLES: 2,
    Shown.FUNCTIONS: 2,
    Shown.USER_FUNCTIONS: 2,
    Shown.PROCEDURES: 2,
}
"""How many parts the place behind FROM has at most: a catalog, or a database in its catalog."""

REFUSED = {
    "MODELS": "Penstock runs no models",
    "CONNECTIONS": "a table's connection is in its options",
}


def convert_show_list(tree: exp.Expr, text: StatementText, namespace: Namespace) -> ShowList:
    """The value of a SHOW that lists names. Raises InputError."""
    if tree.name in REFUSED:
        raise UnsupportedError(
            f"SHOW {tree.name} is not supported", hint=REFUSED[tree.name], span=text.span
        )
    what = Shown(tree.name)
    catalog, database = namespace.current_catalog, namespace.current_database
    table, named = None, tree.args.get("db")
    if what in (Shown.COLUMNS, Shown.PARTITIONS):
        assert named is not None, "the parser asks for a table"
        table = identifier_of(named, text, namespace)
        found = find_object(table, named, text, namespace)
        if what is Shown.PARTITIONS:
            _check_partitioned(found, named, text)
    elif named is not None:
        parts = tuple(part.name for part in named.parts)
        most = MOST_PARTS.get(what, 0)
        if len(parts) > most:
            what_fits = ("nothing", "a catalog", "[catalog.]database")[most]
            raise DefinitionError(
                f"SHOW {what} takes {what_fits} behind FROM", span=text.locate(named)
            )
        if what is Shown.DATABASES:
            catalog = parts[0]
        else:
            catalog, database = (catalog, *parts)[-2:]
    partition = tree.args.get("partition")
    return ShowList(
        what=what,
        catalog=catalog,
        database=database,
        table=table,
        partition=partition_values(partition, text) if partition is not None else (),
        like=like_of(tree),
        span=text.span,
    )


def convert_show_create(tree: exp.Expr, text: StatementText, namespace: Namespace) -> ShowCreate:
    """The value of SHOW CREATE of a table, materialized table or view. Raises InputError."""
    target, asked = tree.args["target"], tree.name.removeprefix("CREATE ")
    if f"{asked}S" in REFUSED:
        raise UnsupportedError(
            f"SHOW CREATE {asked} is not supported", hint=REFUSED[f"{asked}S"], span=text.span
        )
    identifier = identifier_of(target, text, namespace)
    found = find_object(identifier, target, text, namespace)
    kind = _kind(found)
    if asked.removeprefix("OR ALTER ") != kind:
        raise DefinitionError(
            f"{identifier} is a {kind.lower()}",
            hint=f"SHOW CREATE {kind} {target.name}",
            span=text.locate(target),
        )
    return ShowCreate(identifier=identifier, or_alter=asked.startswith("OR ALTER"), span=text.span)


def _kind(found: Table | View) -> str:
    if isinstance(found, View):
        return "VIEW"
    return "TABLE" if found.materialization is None else "MATERIALIZED TABLE"


def like_of(tree: exp.Expr) -> LikePattern | None:
    """The pattern of a SHOW."""
    like, word = tree.args.get("like"), tree.text("scope_kind")
    if like is None:
        return None
    return LikePattern(
        pattern=like.name, negated=word.startswith("NOT"), ignore_case=word.endswith("ILIKE")
    )


def partition_values(spec: PartitionSpec, text: StatementText) -> tuple[tuple[str, str], ...]:
    """The values of PARTITION (column = value, ...) as text. Raises DefinitionError for anything but a literal."""
    found: list[tuple[str, str]] = []
    for part in spec.expressions:
        value = part.args.get("value") if isinstance(part, exp.Property) else None
        if not isinstance(value, exp.Literal):
            raise DefinitionError(
                "a partition is named by values",
                hint="write PARTITION (column = 'value', ...)",
                span=text.locate(part),
            )
        found.append((part.this.name, value.name))
    return tuple(found)


def convert_described(tree: exp.Expr, text: StatementText, namespace: Namespace) -> DescribedThing:
    """The value of DESCRIBE CATALOG, DATABASE, FUNCTION or JOB. Raises InputError."""
    kind, extended = tree.text("kind"), tree.args.get("style") is not None
    if kind == "JOB":
        return DescribeJob(job=tree.this.name, span=text.span)
    if kind == "FUNCTION":
        identifier = function_identifier(tree.this, text, namespace)
        return DescribeFunction(identifier=identifier, extended=extended, span=text.span)
    if kind not in ("CATALOG", "DATABASE"):
        raise UnsupportedError(f"DESCRIBE {kind} is not supported", span=text.span)
    parts: Sequence[str] = tuple(part.name for part in tree.this.parts)
    if len(parts) > (1 if kind == "CATALOG" else 2):
        raise DefinitionError(
            f"{'.'.join(parts)!r} is not the name of a {kind.lower()}", span=text.locate(tree.this)
        )
    if kind == "CATALOG":
        return DescribeCatalog(catalog=parts[0], extended=extended, span=text.span)
    catalog, database = (namespace.current_catalog, *parts)[-2:]
    return DescribeDatabase(catalog=catalog, database=database, extended=extended, span=text.span)


def _check_partitioned(found: Table | View, node: exp.Expr, text: StatementText) -> None:
    if isinstance(found, Table) and found.partition_keys:
        return
    identifier: Identifier = found.identifier
    raise DefinitionError(
        f"{identifier} is not partitioned",
        hint="a table has partitions by PARTITIONED BY (columns)",
        span=text.locate(node),
    )


CORE = "core"
"""The one module that there is: the built-in functions."""


def convert_jar(tree: exp.Expr, text: StatementText, _: Namespace) -> AddJar:
    """The value of ADD JAR. Raises UnsupportedError for REMOVE JAR."""
    if tree.text("action") == "REMOVE":
        raise UnsupportedError(
            "REMOVE JAR is not supported",
            hint="Spark cannot unload classes: start over without the jar",
            span=text.span,
        )
    if not tree.this.name.endswith(".jar"):
        raise DefinitionError(
            f"'{tree.this.name}' is no jar",
            hint="name a file that ends in .jar",
            span=text.locate(tree.this),
        )
    return AddJar(path=tree.this.name, span=text.span)


def convert_stop(tree: exp.Expr, text: StatementText, _: Namespace) -> StopJob:
    """The value of STOP JOB. Raises UnsupportedError for WITH DRAIN."""
    if tree.args.get("drain"):
        raise UnsupportedError(
            "STOP JOB ... WITH DRAIN is not supported",
            hint="leave WITH DRAIN out: the batch in flight is finished, open windows stay in the checkpoint",
            span=text.span,
        )
    return StopJob(job=tree.this.name, savepoint=bool(tree.args.get("savepoint")), span=text.span)


def convert_modules(tree: exp.Expr, text: StatementText, _: Namespace) -> UseModules:
    """The value of USE MODULES core. Raises InputError for anything else about modules."""
    action = tree.text("action")
    for name in tree.expressions:
        if name.name == CORE and action == "UNLOAD":
            raise UnsupportedError(
                f"the module {CORE} cannot be unloaded",
                hint="there is no other that would have functions",
                span=text.locate(name),
            )
        if name.name == CORE and action == "LOAD":
            raise DefinitionError(f"the module {CORE} is loaded already", span=text.locate(name))
        if name.name != CORE and action == "LOAD":
            raise UnsupportedError(
                f"the module '{name.name}' is not supported",
                hint="Penstock has Flink's core functions; register others with CREATE FUNCTION",
                span=text.locate(name),
            )
        if name.name != CORE:
            raise UnknownObjectError(
                f"there is no module '{name.name}'",
                hint=f"{CORE} is the only one",
                span=text.locate(name),
            )
    names = [name.name for name in tree.expressions]
    if len(set(names)) < len(names):
        raise DefinitionError("a module is named twice", span=text.span)
    return UseModules(span=text.span)
