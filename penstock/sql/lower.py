"""From the text of a statement to the statement as a value: parsed, names resolved, checked.

All that can be wrong is found here, at its place, before anything runs: syntax, names, columns,
types, functions. Options of connectors are the connectors' to check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from penstock.catalog.contract import DEFAULT_DATABASE
from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    InputErrors,
    SqlSyntaxError,
    UnknownObjectError,
    UnsupportedError,
)
from penstock.catalog.names import Namespace
from penstock.catalog.table import View
from penstock.sql.compound import ExplainText, SetText, cut
from penstock.sql.definitions import define_table, define_view, option_keys
from penstock.sql.insertion import lower_insert
from penstock.sql.lookup import check_query, find_object, identifier_of
from penstock.sql.positions import LineMap, Source, attach
from penstock.sql.script import StatementText, split_all
from penstock.sql.statements import (
    CreateTable,
    CreateView,
    Describe,
    DropTable,
    DropView,
    Explain,
    InsertInto,
    ResetOption,
    Select,
    SetOption,
    ShowCreate,
    ShowOptions,
    ShowTables,
    Statement,
    StatementSet,
    Use,
)
from penstock.sql.syntax import parse_tree

__all__ = ["apply", "parse_script", "parse_statement"]

PASSED_OVER = ("TEMPORARY", "SYSTEM")


def parse_script(
    text: str, file: str, namespace: Namespace, line_map: LineMap | None = None
) -> tuple[Statement, ...]:
    """The statements of a file, each checked against what those before it define.

    `namespace` stays as it is. Raises InputErrors with everything that is wrong in the file.
    """
    texts, broken_end = split_all(Source(file=file, text=text, line_map=line_map))
    draft = namespace.overlay()
    statements: list[Statement] = []
    errors: list[InputError] = []
    undefined: set[str] = set()
    for one in texts:
        try:
            statement = parse_statement(one, draft)
            apply(statement, draft)
            statements.append(statement)
        except InputError as error:
            found = error.errors if isinstance(error, InputErrors) else (error,)
            errors += [e for e in found if not _follows(e, undefined)]
            undefined |= _defined_name(one)
    if broken_end is not None:
        errors.append(broken_end)
    if errors:
        raise InputErrors(errors)
    return tuple(statements)


def _defined_name(text: StatementText) -> set[str]:
    """The name that a broken CREATE was to define: that it is missing later is no news."""
    words = [token.text for token in text.tokens[:12]]
    upper = [word.upper() for word in words]
    if upper[:1] != ["CREATE"]:
        return set()
    rest = [w for w, u in zip(words, upper, strict=True) if u not in (*PASSED_OVER, "CREATE")][1:]
    if [word.upper() for word in rest[:3]] == ["IF", "NOT", "EXISTS"]:
        rest = rest[3:]
    while len(rest) > 2 and rest[1] == ".":
        rest = rest[2:]
    return {rest[0]} if rest else set()


def _follows(error: InputError, undefined: set[str]) -> bool:
    """Whether an error is only that one of the names is missing."""
    if not isinstance(error, UnknownObjectError) or error.span is None:
        return False
    start = error.span.column - 1
    name = error.span.line_text[start : start + error.span.length]
    return name.rpartition(".")[2].strip("`") in {word.strip("`") for word in undefined}


def apply(statement: Statement, namespace: Namespace) -> None:
    """Take over into a namespace what a statement defines, drops or chooses; others change nothing."""
    match statement:
        case CreateTable():
            namespace.create(statement.table, if_not_exists=statement.if_not_exists)
        case CreateView():
            namespace.create(statement.view, if_not_exists=statement.if_not_exists)
        case DropTable() | DropView():
            namespace.drop(
                statement.identifier,
                kind="table" if isinstance(statement, DropTable) else "view",
                if_exists=statement.if_exists,
                temporary=statement.temporary,
            )
        case Use():
            namespace.use(statement.parts)


def parse_statement(text: StatementText, namespace: Namespace) -> Statement:
    """The statement that a text says, against the tables and views of a namespace.

    Raises SqlSyntaxError, UnsupportedError, UnknownObjectError, DefinitionError, ObjectExistsError,
    or InputErrors if there are several.
    """
    try:
        match cut(text):
            case SetText(inserts=inserts):
                return _statement_set(inserts, text, namespace)
            case ExplainText(explained=explained):
                return _explain(explained, text, namespace)
        return _lower(parse_tree(text), text, namespace)
    except InputErrors as errors:
        raise errors.errors[0] if len(errors.errors) == 1 else errors from None


# --- statements ---


def _statement_set(
    texts: Sequence[StatementText], text: StatementText, namespace: Namespace
) -> StatementSet:
    """The value of a set. Raises InputErrors with all that is wrong in its INSERTs."""
    inserts: list[InsertInto] = []
    errors: list[InputError] = []
    for one in texts:
        try:
            insert = _lower(parse_tree(one), one, namespace)
            assert isinstance(insert, InsertInto), "a set was cut into its INSERTs"
            inserts.append(insert)
        except InputErrors as found:
            errors += found.errors
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors)
    return StatementSet(inserts=tuple(inserts), span=text.span)


def _explain(explained: StatementText, text: StatementText, namespace: Namespace) -> Explain:
    statement = parse_statement(explained, namespace)
    if not isinstance(statement, Select | InsertInto | StatementSet):
        raise UnsupportedError(
            "only queries, INSERTs and statement sets have a plan",
            hint="EXPLAIN SELECT ..., EXPLAIN INSERT ... or EXPLAIN STATEMENT SET BEGIN ... END",
            span=explained.span,
        )
    return Explain(statement=statement, span=text.span)


def _lower(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    if isinstance(tree, exp.Query | exp.Values):
        output = check_query(tree, namespace)
        return Select(query=tree, output=output, source=text, span=text.span)
    lower = LOWER.get(type(tree))
    if lower is None:
        raise SqlSyntaxError("this is no statement", span=text.span)
    return lower(tree, text, namespace)


def _try(
    statement: Statement, node: exp.Expr, text: StatementText, namespace: Namespace
) -> Statement:
    """See on a draft that a definition can be taken over: its error gets its place here."""
    try:
        apply(statement, namespace.overlay())
    except InputError as error:
        error.span = text.locate(node)
        raise
    return statement


def _create(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    assert isinstance(tree, exp.Create)
    name = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    identifier = identifier_of(name, text, namespace)
    if_not_exists = bool(tree.args.get("exists"))
    statement: Statement
    if tree.args["kind"] == "TABLE":
        table = define_table(tree, identifier)
        statement = CreateTable(
            table=table,
            if_not_exists=if_not_exists,
            option_spans={key.name: text.locate(key) for key in option_keys(tree)},
            span=text.span,
        )
    else:
        attach(tree.expression, text.source)
        view = define_view(tree, identifier, namespace)
        statement = CreateView(view=view, if_not_exists=if_not_exists, span=text.span)
    return _try(statement, name, text, namespace)


def _drop(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    name = tree.args["tables"][0]
    kind = DropTable if tree.args["kind"] == "TABLE" else DropView
    statement = kind(
        identifier=identifier_of(name, text, namespace),
        if_exists=bool(tree.args.get("exists")),
        temporary=bool(tree.args.get("temporary")),
        span=text.span,
    )
    return _try(statement, name, text, namespace)


def _use(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    parts = tuple(part.name for part in tree.this.parts)
    if tree.args.get("kind") is not None:
        parts = (*parts, DEFAULT_DATABASE)
    return _try(Use(parts=parts, span=text.span), tree.this, text, namespace)


def _set(tree: exp.Expr, text: StatementText, _: Namespace) -> Statement:
    items = tree.expressions
    if tree.args.get("unset"):
        return ResetOption(key=items[0].this.name if items else None, span=text.span)
    if not items:
        return ShowOptions(span=text.span)
    pair = items[0].this
    return SetOption(key=pair.this.name, value=pair.expression.name, span=text.span)


def _show(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    target = tree.args.get("target")
    if target is not None:
        identifier = identifier_of(target, text, namespace)
        found = find_object(identifier, target, text, namespace)
        kind = "VIEW" if isinstance(found, View) else "TABLE"
        if tree.name != f"CREATE {kind}":
            raise DefinitionError(
                f"{identifier} is a {kind.lower()}",
                hint=f"SHOW CREATE {kind} {target.name}",
                span=text.locate(target),
            )
        return ShowCreate(identifier=identifier, span=text.span)
    catalog, database = namespace.current_catalog, namespace.current_database
    if place := tree.args.get("db"):
        catalog, database = (catalog, *(part.name for part in place.parts))[-2:]
    word, like = tree.text("scope_kind"), tree.args.get("like")
    return ShowTables(
        views_only=tree.name == "VIEWS",
        catalog=catalog,
        database=database,
        pattern=like.name if like else None,
        negated=word.startswith("NOT"),
        ignore_case=word.endswith("ILIKE"),
        span=text.span,
    )


def _describe(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    identifier = identifier_of(tree.this, text, namespace)
    find_object(identifier, tree.this, text, namespace)
    extended = tree.args.get("style") is not None
    return Describe(identifier=identifier, extended=extended, span=text.span)


LOWER: dict[type[exp.Expr], Callable[[exp.Expr, StatementText, Namespace], Statement]] = {
    exp.Create: _create,
    exp.Drop: _drop,
    exp.Insert: lower_insert,
    exp.Set: _set,
    exp.Show: _show,
    exp.Use: _use,
    exp.Describe: _describe,
}
