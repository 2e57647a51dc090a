"""Parses and writes the JSON functions that have a syntax of their own, and IS JSON.

JSON_OBJECT and JSON_OBJECTAGG have JSONKeyValue nodes; JSON_QUERY is a JSONExtract with `json_query`,
`option` (a Var with the wrapper as written out in full) and `returning`; JSON_VALUE and JSON_EXISTS are
sqlglot's nodes. `null_handling` is a text, an OnCondition has texts, or expressions for DEFAULT.
Grammar: Flink's page of JSON functions and Calcite's JsonQueryFunctionCall and its like.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.dialect.parser.hints import HintGenerator, HintParser

__all__ = ["JsonGenerator", "JsonParser"]

EXISTS_ON_ERROR = ("TRUE", "FALSE", "UNKNOWN", "ERROR")
QUERY_ON = ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT")
VALUE_ON = ("NULL", "ERROR")
NULL_HANDLING = ("NULL ON NULL", "ABSENT ON NULL")
JSON_KINDS = ("VALUE", "SCALAR", "ARRAY", "OBJECT")
WRAPPERS = {
    ("WITHOUT",): "WITHOUT ARRAY WRAPPER",
    ("WITH", "CONDITIONAL"): "WITH CONDITIONAL ARRAY WRAPPER",
    ("WITH", "UNCONDITIONAL"): "WITH UNCONDITIONAL ARRAY WRAPPER",
    ("WITH",): "WITH UNCONDITIONAL ARRAY WRAPPER",
}


class JsonParser(HintParser):
    """The part of the parser that reads JSON functions, behind their opening parenthesis."""

    def _parse_flink_json_object(self) -> exp.JSONObject:
        pairs: list[exp.Expr] = []
        if self._curr.token_type != TokenType.R_PAREN and not self._at_null_handling():
            pairs = self._parse_csv(self._parse_flink_pair)
        return exp.JSONObject(expressions=pairs, null_handling=self._parse_null_handling())

    def _parse_flink_json_objectagg(self) -> exp.JSONObjectAgg:
        pairs = [self._parse_flink_pair()]
        return exp.JSONObjectAgg(expressions=pairs, null_handling=self._parse_null_handling())

    def _parse_flink_json_array(self) -> exp.JSONArray:
        items: list[exp.Expr] = []
        if self._curr.token_type != TokenType.R_PAREN and not self._at_null_handling():
            items = self._parse_csv(self._parse_item)
        return exp.JSONArray(expressions=items, null_handling=self._parse_null_handling())

    def _parse_flink_json_arrayagg(self) -> exp.JSONArrayAgg:
        item = self._parse_item()
        return exp.JSONArrayAgg(this=item, null_handling=self._parse_null_handling())

    def _parse_flink_json_value(self) -> exp.JSONValue:
        this, path = self._parse_json_and_path()
        returning = self._parse_data_type() if self._match_text_seq("RETURNING") else None
        empty, error = self._parse_on("EMPTY", VALUE_ON), self._parse_on("ERROR", VALUE_ON)
        condition = exp.OnCondition(empty=empty, error=error) if empty or error else None
        return exp.JSONValue(this=this, path=path, returning=returning, on_condition=condition)

    def _parse_flink_json_exists(self) -> exp.JSONExists:
        this, path = self._parse_json_and_path()
        error = self._parse_on("ERROR", EXISTS_ON_ERROR)
        condition = exp.OnCondition(error=error) if error else None
        return exp.JSONExists(this=this, path=path, on_condition=condition)

    def _parse_flink_json_query(self) -> exp.JSONExtract:
        this, path = self._parse_json_and_path()
        returning = self._parse_data_type() if self._match_text_seq("RETURNING") else None
        option = self._parse_wrapper()
        empty, error = self._parse_on("EMPTY", QUERY_ON), self._parse_on("ERROR", QUERY_ON)
        return exp.JSONExtract(
            this=this,
            expression=path,
            json_query=True,
            returning=returning,
            option=option,
            on_condition=exp.OnCondition(empty=empty, error=error) if empty or error else None,
        )

    # --- parts ---

    def _parse_item(self) -> exp.Expr:
        item = self._parse_disjunction()
        if item is None:
            self.raise_error("Expected an expression")
        return item

    def _parse_json_and_path(self) -> tuple[exp.Expr, exp.Expr]:
        this = self._parse_item()
        if not self._match(TokenType.COMMA):
            self.raise_error("Expected ,")
        return this, self._parse_item()

    def _parse_flink_pair(self) -> exp.JSONKeyValue:
        """[KEY] key VALUE value, or key : value."""
        if self._curr.text.upper() == "KEY" and self._next.token_type not in (
            TokenType.COLON,
            TokenType.DOT,
        ):
            self._match_text_seq("KEY")
        key = self._parse_item()
        if not self._match(TokenType.COLON) and not self._match_text_seq("VALUE"):
            self.raise_error("Expected VALUE")
        return exp.JSONKeyValue(this=key, expression=self._parse_item())

    def _at_null_handling(self) -> bool:
        return any(self._match_text_seq(*words.split(), advance=False) for words in NULL_HANDLING)

    def _parse_null_handling(self) -> str | None:
        for words in NULL_HANDLING:
            if self._match_text_seq(*words.split()):
                return words
        return None

    def _parse_on(self, event: str, behaviours: Sequence[str]) -> str | exp.Expr | None:
        """NULL ON EMPTY, DEFAULT x ON ERROR and their like."""
        for words in behaviours:
            if self._match_text_seq(*words.split(), "ON", event):
                return f"{words} ON {event}"
        if "NULL" not in behaviours or "EMPTY ARRAY" in behaviours:
            return None
        index = self._index
        if self._match(TokenType.DEFAULT):
            value = self._parse_item()
            if self._match_text_seq("ON", event):
                return value
            self._retreat(index)
        return None

    def _parse_wrapper(self) -> exp.Var | None:
        for words, option in WRAPPERS.items():
            if self._match_text_seq(*words):
                self._match_text_seq("ARRAY")
                if not self._match_text_seq("WRAPPER"):
                    self.raise_error("Expected WRAPPER")
                return exp.var(option)
        return None


class JsonGenerator(HintGenerator):
    """The part of the writer that writes JSON functions."""

    def jsonkeyvalue_sql(self, expression: exp.JSONKeyValue) -> str:
        """KEY k VALUE v."""
        return f"KEY {self.sql(expression, 'this')} VALUE {self.sql(expression, 'expression')}"

    def jsonvalue_sql(self, expression: exp.JSONValue) -> str:
        """JSON_VALUE(x, path [RETURNING type] [ON EMPTY] [ON ERROR])."""
        returning = expression.args.get("returning")
        middle = f" RETURNING {self.sql(returning)}" if returning else ""
        return self._json_call("JSON_VALUE", expression.this, expression.args["path"], middle)

    def jsonexists_sql(self, expression: exp.JSONExists) -> str:
        """JSON_EXISTS(x, path [ON ERROR])."""
        return self._json_call("JSON_EXISTS", expression.this, expression.args["path"])

    def jsonextract_sql(self, expression: exp.JSONExtract) -> str:
        """JSON_QUERY(x, path [RETURNING type] [wrapper] [ON EMPTY] [ON ERROR])."""
        returning, option = expression.args.get("returning"), expression.args.get("option")
        middle = f" RETURNING {self.sql(returning)}" if returning else ""
        middle += f" {option.name}" if option else ""
        return self._json_call("JSON_QUERY", expression.this, expression.expression, middle)

    def _json_call(self, name: str, this: exp.Expr, path: exp.Expr, middle: str = "") -> str:
        assert this.parent is not None, "an argument has a call"
        condition = this.parent.args.get("on_condition")
        on = f" {self.sql(condition)}" if condition else ""
        return f"{name}({self.sql(this)}, {self.sql(path)}{middle}{on})"

    def oncondition_sql(self, expression: exp.OnCondition) -> str:
        """NULL ON EMPTY DEFAULT 1 ON ERROR."""
        parts = []
        for event in ("empty", "error"):
            value = expression.args.get(event)
            if isinstance(value, exp.Expr):
                parts.append(f"DEFAULT {self.sql(value)} ON {event.upper()}")
            elif value:
                parts.append(value)
        return " ".join(parts)

    def json_sql(self, expression: exp.JSON) -> str:
        """The right side of IS JSON [VALUE | SCALAR | ARRAY | OBJECT]."""
        kind = expression.args.get("this")
        return f"JSON {kind}" if kind else "JSON"
