"""The OpenAPI description of the JSON API, made of the fields in `fields.py`; docs/openapi.json is its text."""

from __future__ import annotations

import json

from penstock.sql.ui.documents.fields import SCHEMAS, VERSION_PATH, Document, FieldType

PATHS = {
    "/pipelines": ("Pipelines that run anywhere, and those with a checkpoint here.", "PipelineSummary", True),
    "/pipelines/{name}": ("One pipeline; its name has a slash in it.", "Pipeline", False),
    "/lineage": ("What a pipeline's tables are made of, and what of them.", "PipelineLineage", False),
    "/tables": ("Tables and views of the catalog.", "TableSummary", True),
    "/tables/{name}": ("One table or view.", "Table", False),
    "/settings": ("The settings of the project.", "Settings", False),
    "/doctor": ("What was found of the machine; asking begins to look.", "Doctor", False),
    "/dead-letters": ("Records that were left out, of one table or of all.", "DeadLetters", False),
}  # fmt: skip
"""The paths below VERSION_PATH: what each gives, the document, and whether that is a list of them."""


READS = {"/tables/{name}/first-rows": ("Read the first rows of a table.", "FirstRows", False)}
"""The paths that are asked by POST, from the page of this server only: they make it read."""

QUERIES = {
    "/dead-letters": ("table", "the full name of the table that they were read for", False),
    "/lineage": ("pipeline", "the name of the pipeline", True),
}
"""The query parameters of paths: the name, what it is, and whether the path needs it."""


def openapi() -> Document:
    """Return the description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": "1",
            "description": "What pipelines do now. Read-only. A field that is not known is left out.",
        },
        "paths": {
            f"{VERSION_PATH}{path}": {method: _operation(path, *what)}
            for method, paths in (("get", PATHS), ("post", READS))
            for path, what in paths.items()
        },
        "components": {
            "schemas": {
                name: {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {field.name: _type(field) for field in fields},
                }
                for name, fields in SCHEMAS.items()
            }
        },
    }


def openapi_text() -> str:
    """Return the text of docs/openapi.json."""
    return json.dumps(openapi(), indent=1) + "\n"


def _operation(path: str, summary: str, schema: str, is_list: bool) -> Document:
    content = _reference(schema)
    answer = {"type": "array", "items": content} if is_list else content
    answers = {"200": _answer("found", answer)}
    operation: Document = {"summary": summary, "responses": answers}
    if path in READS:
        answers["403"] = _answer("a page of another server asks", _reference("Error"))
    if "{name}" in path:
        answers["404"] = _answer("there is none of this name", _reference("Error"))
        named = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        operation["parameters"] = [named]
    if path in QUERIES:
        name, meaning, needed = QUERIES[path]
        asked = {"name": name, "in": "query", "description": meaning, "schema": {"type": "string"}}
        operation["parameters"] = [asked | {"required": True} if needed else asked]
        if needed:
            answers["404"] = _answer("there is none of this name", _reference("Error"))
    return operation


def _answer(description: str, schema: Document) -> Document:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _reference(schema: str) -> Document:
    return {"$ref": f"#/components/schemas/{schema}"}


def _type(field: FieldType) -> Document:
    described = {"description": field.meaning}
    if field.items is not None:
        return {"type": "array", "items": _reference(field.items), **described}
    if field.type == "date-time":
        return {"type": "string", "format": "date-time", **described}
    if field.type == "texts":
        return {"type": "array", "items": {"type": "string"}, **described}
    if field.type == "numbers":
        return {"type": "array", "items": {"type": "number"}, **described}
    if field.type == "rows":
        row = {"type": "array", "items": {"type": ["string", "null"]}}
        return {"type": "array", "items": row, **described}
    if field.type == "object":
        return {"type": "object", "additionalProperties": {"type": "integer"}, **described}
    return {"type": field.type, **described}
