"""From the text of a statement to the statement as a value: parsed, names resolved, checked.

All that can be wrong is found here, at its place, before anything runs: syntax, names, columns,
types, functions. Options of connectors are the connectors' to check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from penstock.catalog.contract import DEFAULT_DATABASE
from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    InputErrors,
    Span,
    SqlSyntaxError,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.identifier import Identifier
from penstock.catalog.names import Namespace
from penstock.catalog.schema import ComputedColumn, MetadataColumn, PhysicalColumn, Schema
from penstock.catalog.table import Table, View
from penstock.sql.bind import bind_query
from penstock.sql.definitions import define_table, define_view
from penstock.sql.dialect.access import table_options
from penstock.sql.dialect.flink import Flink
from penstock.sql.dialect.problems import FlinkParseError
from penstock.sql.misspelling import nearest_keyword, suspect
from penstock.sql.positions import LineMap, Source, attach
from penstock.sql.script import StatementText, split_all
from penstock.sql.statements import (
    UNSUPPORTED,
    CreateTable,
    CreateView,
    Describe,
    DropTable,
    DropView,
    InsertInto,
    ResetOption,
    Select,
    SetOption,
    ShowCreate,
    ShowOptions,
    ShowTables,
    ShowViews,
    Statement,
    Use,
)

__all__ = ["apply", "parse_script", "parse_statement"]

HEADS = (
    "CREATE", "DROP", "INSERT", "SELECT", "WITH", "VALUES", "SET", "RESET", "SHOW", "DESCRIBE",
    "USE",
)  # fmt: skip
QUERY_STARTS = ("SELECT", "WITH", "VALUES", "(", "TABLE")
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
    return isinstance(error, UnknownObjectError) and any(
        f" {name}" in f" {error.message}".replace("`", "").replace("'", "").replace(".", " ")
        for name in undefined
    )


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
    _refuse_unsupported(text)
    tree = _parse(text)
    try:
        statement = _lower(tree, text, namespace)
    except InputErrors as errors:
        raise errors.errors[0] if len(errors.errors) == 1 else errors from None
    return statement


# --- syntax ---


def _refuse_unsupported(text: StatementText) -> None:
    words = [t.text.upper() for t in text.tokens[:8] if t.text.upper() not in PASSED_OVER]
    line = " ".join(words) + " "
    for refused in UNSUPPORTED:
        if line.startswith(refused.words + " "):
            if refused.words in ("EXPLAIN", "UPDATE", "CALL") and len(words) == 1:
                continue
            raise UnsupportedError(
                f"{refused.words} is not supported",
                hint=refused.hint,
                span=_token_span(text, text.tokens[0]),
            )
    first = text.tokens[0]
    if words[0] not in (*HEADS, *QUERY_STARTS, "DESC"):
        near = nearest_keyword(first, HEADS)
        raise SqlSyntaxError(
            f"no statement begins with '{first.text}'",
            hint=f"did you mean {near}?" if near else f"statements begin with {', '.join(HEADS)}",
            span=_token_span(text, first),
        )


def _token_span(text: StatementText, token: Token) -> Span:
    return text.source.span(token.start, token.end)


def _parse(text: StatementText) -> exp.Expr:
    try:
        trees = Flink().parser().parse(list(text.tokens), text.source.text)
    except FlinkParseError as error:
        raise _syntax_error(error, text) from None
    except RecursionError:
        raise SqlSyntaxError("this statement is nested too deeply", span=text.span) from None
    tree = trees[0] if trees else None
    assert tree is not None, "a statement has tokens"
    return attach(tree, text.source)


def _syntax_error(error: FlinkParseError, text: StatementText) -> InputError:
    span = text.source.span(error.start, error.end)
    if error.unsupported:
        return UnsupportedError(error.message, hint=error.hint, span=span)
    message, hint = error.message, error.hint
    if hint is None and (found := suspect(error.token, error.previous)):
        token, keyword = found
        hint = f"did you mean {keyword}?"
        if token is not error.token:
            message, span = f"unexpected '{token.text}'", _token_span(text, token)
    if hint is None and '"' in (error.token.text if error.token else ""):
        hint = "names are quoted with `backticks`, texts with 'single quotes'"
    return SqlSyntaxError(message, hint=hint, span=span)


# --- statements ---


def _lower(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    if isinstance(tree, exp.Query | exp.Values):
        output = _bind(tree, namespace)
        return Select(query=tree, output=output, source=text, span=text.span)
    lower = LOWER.get(type(tree))
    if lower is None:
        raise SqlSyntaxError("this is no statement", span=text.span)
    return lower(tree, text, namespace)


def _identifier(table: exp.Expr, text: StatementText, namespace: Namespace) -> Identifier:
    assert isinstance(table, exp.Table), "the parser puts a table where a name stands"
    try:
        return namespace.resolve(tuple(part.name for part in table.parts))
    except InputError as error:
        error.span = text.locate(table)
        raise


def _lookup(
    identifier: Identifier, node: exp.Expr, text: StatementText, namespace: Namespace
) -> Table | View:
    try:
        return namespace.lookup(identifier)
    except InputError as error:
        error.span = text.locate(node)
        raise


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
    identifier = _identifier(name, text, namespace)
    if_not_exists = bool(tree.args.get("exists"))
    statement: Statement
    if tree.args["kind"] == "TABLE":
        table = define_table(tree, identifier)
        statement = CreateTable(table=table, if_not_exists=if_not_exists, span=text.span)
    else:
        attach(tree.expression, text.source)
        view = define_view(tree, identifier, namespace)
        statement = CreateView(view=view, if_not_exists=if_not_exists, span=text.span)
    return _try(statement, name, text, namespace)


def _drop(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    name = tree.args["tables"][0]
    kind = DropTable if tree.args["kind"] == "TABLE" else DropView
    statement = kind(
        identifier=_identifier(name, text, namespace),
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
        identifier = _identifier(target, text, namespace)
        found = _lookup(identifier, target, text, namespace)
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
    make = ShowTables if tree.name == "TABLES" else ShowViews
    return make(
        catalog=catalog,
        database=database,
        pattern=like.name if like else None,
        negated=word.startswith("NOT"),
        ignore_case=word.endswith("ILIKE"),
        span=text.span,
    )


def _describe(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    identifier = _identifier(tree.this, text, namespace)
    _lookup(identifier, tree.this, text, namespace)
    extended = tree.args.get("style") is not None
    return Describe(identifier=identifier, extended=extended, span=text.span)


def _bind(query: exp.Expr, namespace: Namespace) -> tuple[str, ...] | None:
    bound = bind_query(query, namespace)
    if bound.errors:
        raise InputErrors(bound.errors)
    return None if bound.output is None else tuple(name for name, _ in bound.output)


def _insert(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    listed: Sequence[exp.Expr] = tree.this.expressions if isinstance(tree.this, exp.Schema) else ()
    name = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    query = attach(tree.expression.pop(), text.source)
    errors: list[InputError] = []
    identifier = _identifier(name, text, namespace)
    target: Table | View | None = None
    try:
        target = _lookup(identifier, name, text, namespace)
    except InputError as error:
        errors.append(error)
    if isinstance(target, View):
        message = f"{identifier} is a view; rows go into tables only"
        errors.append(UnsupportedError(message, span=text.locate(name)))
    elif target is not None:
        errors += _column_list_errors(listed, target.schema, text)
    output: tuple[str, ...] | None = None
    try:
        output = _bind(query, namespace)
    except InputErrors as found:
        errors += found.errors
    if not errors and isinstance(target, Table):
        columns = tuple(column.name for column in listed) or _writable(target.schema)
        errors += _count_errors(query, output, columns, identifier, text)
    if errors:
        raise InputErrors(errors)
    return InsertInto(
        target=identifier,
        columns=tuple(column.name for column in listed),
        query=query,
        options=tuple(table_options(name).items()),
        output=output,
        source=text,
        span=text.span,
    )


def _writable(schema: Schema) -> tuple[str, ...]:
    """The columns that an INSERT fills: physical ones, and metadata columns that are not virtual."""
    return tuple(
        column.name
        for column in schema.columns
        if isinstance(column, PhysicalColumn)
        or (isinstance(column, MetadataColumn) and not column.virtual)
    )


def _column_list_errors(
    listed: Sequence[exp.Expr], schema: Schema, text: StatementText
) -> list[InputError]:
    errors: list[InputError] = []
    names, writable = list(schema.names), _writable(schema)
    seen: set[str] = set()
    for column in listed:
        span = text.locate(column)
        if column.name not in names:
            hint = did_you_mean(column.name, writable) or f"columns are: {', '.join(writable)}"
            errors.append(
                UnknownObjectError(f"there is no column '{column.name}'", hint=hint, span=span)
            )
        elif column.name not in writable:
            computed = isinstance(schema.column(column.name), ComputedColumn)
            what = "computed" if computed else "a virtual metadata column"
            message = f"'{column.name}' is {what}: nothing can be written to it"
            errors.append(DefinitionError(message, span=span))
        elif column.name in seen:
            errors.append(DefinitionError(f"the column '{column.name}' is named twice", span=span))
        seen.add(column.name)
    return errors


def _count_errors(
    query: exp.Expr,
    output: tuple[str, ...] | None,
    columns: tuple[str, ...],
    target: Identifier,
    text: StatementText,
) -> list[InputError]:
    rows = query.expressions if isinstance(query, exp.Values) else []
    wrong = next((row for row in rows if len(row.expressions) != len(columns)), None)
    given = len(wrong.expressions) if wrong is not None else len(output or columns)
    if given == len(columns):
        return []
    what = "this row" if wrong is not None else f"the query ({', '.join(output or ())})"
    return [
        DefinitionError(
            f"{what} has {given} columns, {target} takes {len(columns)} ({', '.join(columns)})",
            hint="name the columns that are filled: INSERT INTO t (a, b) SELECT ...",
            span=text.locate(wrong if wrong is not None else query),
        )
    ]


LOWER: dict[type[exp.Expr], Callable[[exp.Expr, StatementText, Namespace], Statement]] = {
    exp.Create: _create,
    exp.Drop: _drop,
    exp.Insert: _insert,
    exp.Set: _set,
    exp.Show: _show,
    exp.Use: _use,
    exp.Describe: _describe,
}
