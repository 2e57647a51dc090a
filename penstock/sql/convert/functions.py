"""Convert CREATE, ALTER and DROP of functions and of secrets."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.model.function import Function, Language
from penstock.catalog.model.identifier import Identifier
from penstock.sql.convert.names import function_identifier
from penstock.sql.ddl.apply_ddl import validated_on_overlay
from penstock.sql.dialect.parser.calls import is_built_in
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.definitions import (
    AlterFunction,
    AlterSecret,
    CreateFunction,
    CreateSecret,
    DropFunction,
    DropSecret,
)


def convert_create_function(
    tree: exp.Expr, text: StatementText, namespace: Namespace
) -> CreateFunction:
    """The value of CREATE FUNCTION. Raises InputError."""
    for option in tree.args.get("options") or []:
        raise UnsupportedError(
            "options of a function are not supported",
            hint="give the function what it needs in its own code",
            span=text.locate(option),
        )
    jars: list[str] = []
    for resource in tree.args.get("resources") or []:
        if resource.text("kind") != "JAR":
            raise UnsupportedError(
                "USING ARTIFACT is not supported",
                hint="a Python module is found beside the project file and where Python finds modules",
                span=text.locate(resource),
            )
        jars.append(resource.this.name)
    function = _function(tree, text, namespace, tuple(jars))
    statement = CreateFunction(
        function=function, if_not_exists=bool(tree.args.get("exists")), span=text.span
    )
    with text.placing(tree.this):
        namespace.functions.overlay().create(function, if_not_exists=statement.if_not_exists)
    return statement


def convert_alter_function(
    tree: exp.Expr, text: StatementText, namespace: Namespace
) -> AlterFunction:
    """The value of ALTER FUNCTION. Raises InputError."""
    statement = AlterFunction(
        function=_function(tree, text, namespace, ()),
        if_exists=bool(tree.args.get("exists")),
        span=text.span,
    )
    with text.placing(tree.this):
        namespace.functions.overlay().alter(statement.function, if_exists=statement.if_exists)
    return statement


def convert_drop_function(
    tree: exp.Expr, text: StatementText, namespace: Namespace
) -> DropFunction:
    """The value of DROP FUNCTION. Raises InputError."""
    statement = DropFunction(
        identifier=_identifier(tree, text, namespace),
        temporary=bool(tree.args.get("temporary")),
        system=bool(tree.args.get("system")),
        if_exists=bool(tree.args.get("exists")),
        span=text.span,
    )
    with text.placing(tree.this):
        namespace.functions.overlay().drop(
            statement.identifier,
            temporary=statement.temporary,
            system=statement.system,
            if_exists=statement.if_exists,
        )
    return statement


def _function(
    tree: exp.Expr, text: StatementText, namespace: Namespace, jars: tuple[str, ...]
) -> Function:
    language = tree.args.get("language")
    word = language.name if language is not None else Language.JAVA.value
    if word == "SCALA":
        raise UnsupportedError(
            "functions in Scala are not supported",
            hint="LANGUAGE JAVA with a class that implements org.apache.spark.sql.api.java.UDF1 (UDF2, ...), "
            "or LANGUAGE PYTHON",
            span=text.locate(language) if language is not None else text.span,
        )
    identifier = _identifier(tree, text, namespace)
    _refuse_built_in(identifier.name, tree, text)
    with text.placing(tree.expression):
        return Function(
            identifier=identifier,
            code=tree.expression.name,
            language=Language(word),
            jars=jars,
            temporary=bool(tree.args.get("temporary")),
            system=bool(tree.args.get("system")),
        )


def _identifier(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Identifier:
    if tree.args.get("system") and len(tree.this.parts) > 1:
        raise DefinitionError(
            "a system function has a name without catalog and database",
            hint=f"write {tree.this.name}",
            span=text.locate(tree.this),
        )
    return function_identifier(tree.this, text, namespace)


def _refuse_built_in(name: str, tree: exp.Expr, text: StatementText) -> None:
    """Flink lets a temporary system function hide a built-in one; here Spark would choose which of the two runs."""
    if is_built_in(name):
        raise UnsupportedError(
            f"{name.upper()} is a built-in function, and nothing can take its name",
            hint="choose another name",
            span=text.locate(tree.this),
        )


SecretChange = CreateSecret | AlterSecret | DropSecret


def convert_secret(tree: exp.Expr, text: StatementText, namespace: Namespace) -> SecretChange:
    """The value of a statement about a secret, tried on an overlay. Raises InputError at the secret's name."""
    statement = _statement(tree, text)
    validated_on_overlay(statement, tree.this, text, namespace)
    return statement


def _statement(tree: exp.Expr, text: StatementText) -> SecretChange:
    name, exists = tree.this.name, bool(tree.args.get("exists"))
    match tree.text("action"):
        case "CREATE":
            value = tree.expression.name
            return CreateSecret(name=name, value=value, if_not_exists=exists, span=text.span)
        case "ALTER":
            return AlterSecret(name=name, value=tree.expression.name, span=text.span)
    return DropSecret(name=name, if_exists=exists, span=text.span)
