"""Own `FlinkGenerator`: the tables by which sqlglot's generator finds the functions of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from penstock.sql.dialect.generator import ddl, expressions, statements
from penstock.sql.syntax import nodes


class FlinkGenerator(Generator):
    """The generator of the dialect `flink`."""

    TYPE_MAPPING: ClassVar[dict[Any, str]] = {
        **Generator.TYPE_MAPPING,
        exp.DType.TEXT: "STRING",
        exp.DType.TIMESTAMPNTZ: "TIMESTAMP",
        exp.DType.TIMESTAMPLTZ: "TIMESTAMP_LTZ",
        exp.DType.STRUCT: "ROW",
        exp.DType.INT: "INT",
    }
    TABLE_HINTS = True
    SUPPORTS_MEDIAN = False
    SUPPORTS_BETWEEN_FLAGS = True
    SUPPORTS_WINDOW_EXCLUDE = True
    TRANSFORMS: ClassVar[dict[Any, Callable[..., str]]] = {
        **Generator.TRANSFORMS,
        exp.CurrentTimestamp: lambda *_: "CURRENT_TIMESTAMP",
        exp.CurrentTime: lambda *_: "CURRENT_TIME",
        exp.Localtime: lambda *_: "LOCALTIME",
        exp.Localtimestamp: lambda *_: "LOCALTIMESTAMP",
        exp.If: lambda self, e: self.func("IF", e.this, e.args.get("true"), e.args.get("false")),
        exp.Stddev: lambda self, e: self.func("STDDEV_SAMP", e.this),
        exp.Variance: lambda self, e: self.func("VAR_SAMP", e.this),
        exp.VariancePop: lambda self, e: self.func("VAR_POP", e.this),
        exp.TryCast: lambda self, e: self.trycast_sql(e),
        exp.Kwarg: lambda self, e: f"{e.name} => {self.sql(e, 'expression')}",
        exp.SchemaCommentProperty: lambda self, e: f"COMMENT {self.sql(e, 'this')}",
        exp.PartitionedByProperty: lambda self, e: f"PARTITIONED BY {self.sql(e, 'this')}",
        # sqlglot finds the methods of its own nodes only
        nodes.AlterElements: ddl.alterelements_sql,
        nodes.AlterFunctionStatement: statements.alterfunctionstatement_sql,
        nodes.AlterMaterializedTableStatement: statements.altermaterializedtablestatement_sql,
        nodes.AnalyzeTable: statements.analyzetable_sql,
        nodes.CallProcedureStatement: statements.callprocedurestatement_sql,
        nodes.CreateFunctionStatement: statements.createfunctionstatement_sql,
        nodes.CreateMaterializedTableStatement: statements.creatematerializedtablestatement_sql,
        nodes.Distribution: ddl.distribution_sql,
        nodes.DropFunctionStatement: statements.dropfunctionstatement_sql,
        nodes.DropMaterializedTableStatement: statements.dropmaterializedtablestatement_sql,
        nodes.ExplainStatement: statements.explainstatement_sql,
        nodes.JarStatement: statements.jarstatement_sql,
        nodes.ModuleStatement: statements.modulestatement_sql,
        nodes.PartitionSpec: statements.partitionspec_sql,
        nodes.RefusedStatement: statements.refusedstatement_sql,
        nodes.ReplaceTable: ddl.create_sql,
        nodes.ResourceProperty: statements.resourceproperty_sql,
        nodes.ScanTable: lambda self, e: self.table_sql(e),
        nodes.SecretStatement: statements.secretstatement_sql,
        nodes.StatementSetBlock: statements.statementsetblock_sql,
        nodes.StopJobStatement: statements.stopjobstatement_sql,
    }

    # --- what sqlglot calls by its name ---

    jsonkeyvalue_sql = expressions.jsonkeyvalue_sql
    jsonvalue_sql = expressions.jsonvalue_sql
    jsonexists_sql = expressions.jsonexists_sql
    oncondition_sql = expressions.oncondition_sql
    json_sql = expressions.json_sql
    anonymous_sql = expressions.anonymous_sql
    datatype_sql = expressions.datatype_sql
    columndef_sql = expressions.columndef_sql
    computedcolumnconstraint_sql = expressions.computedcolumnconstraint_sql
    primarykeycolumnconstraint_sql = expressions.primarykeycolumnconstraint_sql
    primarykey_sql = expressions.primarykey_sql
    interval_sql = expressions.interval_sql
    bracket_sql = expressions.bracket_sql
    ignorenulls_sql = expressions.ignorenulls_sql
    respectnulls_sql = expressions.respectnulls_sql
    extract_sql = expressions.extract_sql
    trim_sql = expressions.trim_sql
    jsonextract_sql = expressions.jsonextract_sql
    array_sql = expressions.array_sql
    groupconcat_sql = expressions.groupconcat_sql
    strposition_sql = expressions.strposition_sql
    hint_sql = expressions.hint_sql
    propertyeq_sql = expressions.propertyeq_sql
    matchrecognize_sql = expressions.matchrecognize_sql
    table_sql = expressions.table_sql
    subquery_sql = expressions.subquery_sql
    version_sql = expressions.version_sql
    lateral_sql = expressions.lateral_sql
    unnest_sql = expressions.unnest_sql
    create_sql = ddl.create_sql
    schema_sql = ddl.schema_sql
    property_sql = ddl.property_sql
    likeproperty_sql = ddl.likeproperty_sql
    alter_sql = ddl.alter_sql
    alterrename_sql = ddl.alterrename_sql
    renamecolumn_sql = ddl.renamecolumn_sql
    alterset_sql = ddl.alterset_sql
    addpartition_sql = ddl.addpartition_sql
    droppartition_sql = ddl.droppartition_sql
    columnposition_sql = ddl.columnposition_sql
    drop_sql = ddl.drop_sql
    show_sql = statements.show_sql
    describe_sql = statements.describe_sql
    insert_sql = statements.insert_sql
    set_sql = statements.set_sql
