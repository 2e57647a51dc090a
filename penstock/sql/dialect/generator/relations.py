"""Write hints, JSON functions, MATCH_RECOGNIZE, calls with tables in them, and relations."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.generator import Generator

from penstock.sql.dialect.parser.table_functions import ORDER_ARGUMENT, PARTITION_ARGUMENT

__all__ = ["RelationGenerator"]


class HintGenerator(Generator):
    """The part of the writer that writes hints."""

    def hint_sql(self, expression: exp.Hint) -> str:
        """/*+ NAME('k'='v') */, with the space that parts it from the word in front."""
        calls = ", ".join(self._hint_call(call) for call in expression.expressions)
        space = " " if isinstance(expression.parent, exp.Select) else ""
        return f"{space}/*+ {calls} */"

    def _hint_call(self, call: exp.Expr) -> str:
        arguments = self.expressions(call, flat=True)
        return f"{call.name}({arguments})" if arguments else call.name

    def propertyeq_sql(self, expression: exp.PropertyEQ) -> str:
        """'k'='v' of a hint."""
        return f"{self.sql(expression, 'this')}={self.sql(expression, 'expression')}"


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


class MatchGenerator(JsonGenerator):
    """The part of the writer that writes MATCH_RECOGNIZE."""

    def matchrecognize_sql(self, expression: exp.MatchRecognize) -> str:
        """MATCH_RECOGNIZE (...) AS m."""
        measures = self.expressions(expression, key="measures", flat=True)
        within, subset = self.sql(expression, "within"), expression.args.get("subset")
        sets = ", ".join(
            f"{self.sql(one, 'this')} = ({self.expressions(one, flat=True)})"
            for one in subset or []
        )
        definitions = ", ".join(
            f"{self.sql(one, 'alias')} AS {self.sql(one, 'this')}"
            for one in expression.args["define"]
        )
        parts = (
            self.partition_by_sql(expression),
            self.sql(expression, "order").strip(),
            f"MEASURES {measures}" if measures else "",
            self.sql(expression, "rows"),
            self.sql(expression, "after"),
            f"PATTERN ({expression.args['pattern'].name})",
            f"WITHIN {within}" if within else "",
            f"SUBSET {sets}" if sets else "",
            f"DEFINE {definitions}",
        )
        alias = self.sql(expression, "alias")
        text = f" MATCH_RECOGNIZE ({' '.join(part for part in parts if part)})"
        return f"{text} AS {alias}" if alias else text


class TableFunctionGenerator(MatchGenerator):
    """The part of the writer that writes calls with tables in them."""

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        """A function by its own name; MAP[...], DESCRIPTOR, MODEL and tables as arguments."""
        name = expression.name.upper()
        if name == "MAP" and not self._is_query(expression):
            return f"MAP[{self.expressions(expression, flat=True)}]"
        if name == "MODEL" and all(isinstance(e, exp.Identifier) for e in expression.expressions):
            return f"MODEL {'.'.join(self.sql(part) for part in expression.expressions)}"
        if not any(map(self._is_table_argument, expression.expressions)):
            if isinstance(expression.this, exp.Identifier) and expression.this.quoted:
                # what is in backticks keeps its letters
                return self.func(
                    self.sql(expression, "this"), *expression.expressions, normalize=False
                )
            return super().anonymous_sql(expression)
        text = ""
        for argument in expression.expressions:
            if isinstance(argument, exp.Kwarg) and argument.name in (
                PARTITION_ARGUMENT,
                ORDER_ARGUMENT,
            ):
                text += f" {argument.name} {self.sql(argument, 'expression')}"
                continue
            sql = self._argument(argument)
            text += f", {sql}" if text else sql
        return f"{self.normalize_func(name)}({text})"

    @staticmethod
    def _is_query(call: exp.Anonymous) -> bool:
        return len(call.expressions) == 1 and isinstance(call.expressions[0], exp.Query)

    @staticmethod
    def _is_table_argument(argument: exp.Expr) -> bool:
        data = argument.expression if isinstance(argument, exp.Kwarg) else argument
        return isinstance(data, exp.Table | exp.Subquery)

    def _argument(self, argument: exp.Expr) -> str:
        if isinstance(argument, exp.Kwarg):
            return f"{argument.name} => {self._argument(argument.expression)}"
        if not isinstance(argument, exp.Table):
            return self.sql(argument)
        hints = self.expressions(argument, key="hints", sep=" ", flat=True)
        return f"TABLE {self.table_parts(argument)}" + (f" {hints}" if hints else "")


class RelationGenerator(TableFunctionGenerator):
    """The part of the writer that writes relations."""

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        """A table with its hints, version and alias; a table function in TABLE(...)."""
        joins = self.expressions(expression, key="joins", sep="", flat=True)
        alias = self.sql(expression, "alias")
        named = f"{sep}{alias}" if alias else ""
        match = self.sql(expression, "match")
        if isinstance(expression.this, exp.Func):
            return f"TABLE({self.sql(expression, 'this')}){named}{match}{joins}"
        hints = self.expressions(expression, key="hints", sep=" ", flat=True)
        parts = (self.table_parts(expression), hints, self.sql(expression, "version"))
        return " ".join(part for part in parts if part) + named + match + joins

    def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
        """(query) AS s."""
        match = expression.args.get("match")
        expression.set("match", None)  # sqlglot's query modifiers would write it a second time
        try:
            return super().subquery_sql(expression, sep) + self.sql(match)
        finally:
            expression.set("match", match)

    def version_sql(self, expression: exp.Version) -> str:
        """FOR SYSTEM_TIME AS OF of a temporal join."""
        return f"FOR SYSTEM_TIME AS OF {self.sql(expression, 'expression')}"

    def lateral_sql(self, expression: exp.Lateral) -> str:
        """LATERAL (query), LATERAL TABLE(call)."""
        alias = self.sql(expression, "alias")
        return f"LATERAL {self.sql(expression, 'this')}" + (f" AS {alias}" if alias else "")

    def unnest_sql(self, expression: exp.Unnest) -> str:
        """UNNEST(value) WITH ORDINALITY AS t(x, n)."""
        alias = self.sql(expression, "alias")
        ordinality = " WITH ORDINALITY" if expression.args.get("offset") else ""
        values = self.expressions(expression, flat=True)
        return f"UNNEST({values}){ordinality}" + (f" AS {alias}" if alias else "")
