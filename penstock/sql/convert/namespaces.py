"""CREATE, ALTER, DROP and USE of databases and catalogs: from the syntax tree to the statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.definitions.ddl_rules import find_catalog
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import DefinitionError, InputError, InputErrors, OptionError, Span
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.sql.convert.table_builder import TableBuilder
from penstock.sql.convert.table_definition import option_keys, read_options, table_comment
from penstock.sql.ddl.apply_ddl import validated_on_overlay
from penstock.sql.script.splitter import StatementText
from penstock.sql.statements.definitions import (
    AlterCatalog,
    AlterDatabase,
    CreateCatalog,
    CreateDatabase,
    DropCatalog,
    DropDatabase,
    ShowCreateCatalog,
)
from penstock.sql.statements.statement import Statement, Use


def convert_create_namespace(
    tree: exp.Create, text: StatementText, namespace: Namespace
) -> Statement:
    """The value of CREATE DATABASE and CREATE CATALOG. Raises InputErrors."""
    exists = bool(tree.args.get("exists"))
    keys, comment = option_keys(tree), table_comment(tree)
    options = _options(keys, tree.this)
    if tree.args["kind"] == "DATABASE":
        catalog, name = _database_name(tree.this, text, namespace)
        database = DatabaseDescriptor(catalog=catalog, name=name, options=options, comment=comment)
        made: CreateDatabase | CreateCatalog = CreateDatabase(
            database=database, if_not_exists=exists, span=text.span
        )
    else:
        name = _catalog_name(tree.this, text)
        try:
            descriptor = CatalogDescriptor(name=name, options=options, comment=comment)
        except InputError as error:
            error.span = _option_span(error, keys, text) or text.locate(tree.this)
            raise
        made = CreateCatalog(catalog=descriptor, if_not_exists=exists, span=text.span)
    return validated_on_overlay(made, tree.this, text, namespace)


def convert_alter_namespace(
    tree: exp.Alter, text: StatementText, namespace: Namespace
) -> Statement:
    """The value of ALTER DATABASE and ALTER CATALOG. Raises InputErrors."""
    (action,) = tree.args["actions"]
    changed: AlterDatabase | AlterCatalog
    with text.placing(tree.this):
        if tree.args["kind"] == "DATABASE":
            catalog, name = _database_name(tree.this, text, namespace)
            database = namespace.catalog.database(catalog, name)
            options = changed_options(action, database.option_map, text)
            after = replace(database, options=tuple(options.items()))
            changed = AlterDatabase(before=database, after=after, span=text.span)
        else:
            found = find_catalog(_catalog_name(tree.this, text), namespace.catalog)
            changed = AlterCatalog(
                before=found, after=_changed_catalog(found, action, text), span=text.span
            )
    return validated_on_overlay(changed, action, text, namespace)


def convert_drop_namespace(tree: exp.Drop, text: StatementText, namespace: Namespace) -> Statement:
    """The value of DROP DATABASE and DROP CATALOG. Raises InputError."""
    node, exists = tree.args["tables"][0], bool(tree.args.get("exists"))
    dropped: DropDatabase | DropCatalog
    if tree.args["kind"] == "DATABASE":
        catalog, name = _database_name(node, text, namespace)
        cascade = bool(tree.args.get("cascade"))
        dropped = DropDatabase(
            catalog=catalog, name=name, if_exists=exists, cascade=cascade, span=text.span
        )
    else:
        dropped = DropCatalog(name=_catalog_name(node, text), if_exists=exists, span=text.span)
    return validated_on_overlay(dropped, node, text, namespace)


def convert_use(tree: exp.Expr, text: StatementText, namespace: Namespace) -> Statement:
    """The value of USE and USE CATALOG. Raises InputError."""
    if tree.args.get("kind") is not None:
        with text.placing(tree.this):
            found = find_catalog(_catalog_name(tree.this, text), namespace.catalog)
        used = Use(parts=(found.name, found.default_database), span=text.span)
        return validated_on_overlay(used, tree.this, text, namespace)
    parts = tuple(part.name for part in tree.this.parts)
    if len(parts) > 2:
        raise _too_long("database", "[catalog.]database", text, tree.this)
    return validated_on_overlay(Use(parts=parts, span=text.span), tree.this, text, namespace)


def convert_show_create_catalog(
    node: exp.Expr, text: StatementText, namespace: Namespace
) -> ShowCreateCatalog:
    """The value of SHOW CREATE CATALOG; `node` is the name. Raises InputError."""
    with text.placing(node):
        found = find_catalog(_catalog_name(node, text), namespace.catalog)
    return ShowCreateCatalog(name=found.name, span=text.span)


def changed_options(
    action: exp.Expr, options: Mapping[str, str], text: StatementText
) -> dict[str, str]:
    """The options after SET (the last of a key wins) or RESET (unknown keys are passed over), as in Flink."""
    if action.args.get("option") is None:
        return dict(options) | {o.this.name: o.args["value"].name for o in action.expressions}
    if not action.expressions:
        raise OptionError(
            "RESET names no option", hint="RESET ('key', ...)", span=text.locate(action)
        )
    dropped = {key.name for key in action.expressions}
    return {key: value for key, value in options.items() if key not in dropped}


def _changed_catalog(
    found: CatalogDescriptor, action: exp.Expr, text: StatementText
) -> CatalogDescriptor:
    if isinstance(action, exp.SchemaCommentProperty):
        return replace(found, comment=action.this.name)
    options = changed_options(action, found.option_map, text)
    with text.placing(action):
        return replace(found, options=tuple(options.items()))


def _options(keys: list[exp.Literal], where: exp.Expr) -> tuple[tuple[str, str], ...]:
    builder = TableBuilder(where=where)
    options = read_options(keys, builder)
    if builder.errors:
        raise InputErrors(builder.errors)
    return options


def _option_span(error: InputError, keys: list[exp.Literal], text: StatementText) -> Span | None:
    named = (key for key in keys if f"'{key.name}'" in error.message)
    key = next(named, None)
    return None if key is None else text.locate(key)


def _database_name(node: exp.Expr, text: StatementText, namespace: Namespace) -> tuple[str, str]:
    assert isinstance(node, exp.Table), "the parser puts a table where a name stands"
    parts = [part.name for part in node.parts]
    if len(parts) > 2:
        raise _too_long("database", "[catalog.]database", text, node)
    catalog, name = (namespace.current_catalog, *parts)[-2:]
    return catalog, name


def _catalog_name(node: exp.Expr, text: StatementText) -> str:
    assert isinstance(node, exp.Table), "the parser puts a table where a name stands"
    if len(node.parts) > 1:
        raise _too_long("catalog", "one word", text, node)
    return node.name


def _too_long(kind: str, shape: str, text: StatementText, node: exp.Expr) -> DefinitionError:
    return DefinitionError(
        f"this is not the name of a {kind}", hint=f"it is {shape}", span=text.locate(node)
    )
