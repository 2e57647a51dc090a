"""The job of a batch of keyed operators, as a lazy frame: inputs to tasks by bucket, and what they return.

`run.py` runs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.catalog.model.identifier import quoted
from penstock.connector.changelog import ROW_KIND
from penstock.connector.expression import BUCKET, ENCODED, FIRST, INPUT
from penstock.connector.spark.internals import (
    map_in_arrow,
    select_sql,
    unpersist_local_checkpoint,
)
from penstock.sql.dialect import to_spark_query
from penstock.sql.incremental.keyed.choose import AddedColumn, outer_inputs
from penstock.sql.incremental.keyed.files.manifest import StateManifest
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import (
    KeyedBatch,
    KeyedLayout,
    KeyedOperator,
    WatermarkOperator,
)
from penstock.sql.incremental.keyed.runtime.plan import (
    BucketInput,
    KeyedPlan,
    OneTask,
    bucket_inputs,
    takes_inputs,
)
from penstock.sql.incremental.keyed.runtime.task import (
    ORDER,
    Reports,
    StageTask,
    TaskCalc,
    TaskInput,
    TaskReport,
    TaskStage,
    each_bucket,
    rows_column,
)
from penstock.sql.incremental.stages import (
    INPUT_INDEX,
    Calc,
    IncrementalQuery,
    PaneAggregate,
    Stage,
    Stateless,
    input_column,
    inputs_of,
    shuffled_relations,
    without_kinds,
)
from penstock.sql.incremental.state.batch import over_tables
from penstock.sql.incremental.state.panes import grouped_by_pane
from penstock.sql.incremental.state.schemas import last_relation
from penstock.sql.incremental.state.state_table import columns_of


def with_columns(rows: DataFrame, columns: Sequence[AddedColumn]) -> DataFrame:
    """Add columns behind those of a relation, in front of ROW_KIND."""
    names = [name for name in rows.columns if name != ROW_KIND]
    kind = [ROW_KIND] if len(names) < len(rows.columns) else []
    added = [F.expr(to_spark_query(one.value)).alias(one.name) for one in columns]
    return rows.select(*columns_of(names), *added, *columns_of(kind))


def _is_by_bucket(rows: DataFrame) -> bool:
    return ENCODED in rows.columns


def _with_structs(pieces: DataFrame, tagged: DataFrame) -> DataFrame:
    """Return what comes by bucket in the columns of both, those of STRUCTs last."""
    structs = (of for of in tagged.schema.fields if of.name not in (BUCKET, ORDER))
    return pieces.select("*", *(_null(of).alias(of.name) for of in structs))


def _with_pieces(tagged: DataFrame, pieces: DataFrame) -> DataFrame:
    """Return rows that do not come by bucket in the columns of both."""
    order, structs = (BUCKET, ORDER), [of for of in tagged.columns if of not in (BUCKET, ORDER)]
    own = (of for of in pieces.schema.fields if of.name in (INPUT, ENCODED))
    return tagged.select(*order, *(_null(of).alias(of.name) for of in own), *structs)


def _null(of: s.StructField) -> Column:
    return F.lit(None).cast(of.dataType)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedJob:
    """Builds the frame of a batch: nothing is computed. `one_task`: a task runs all stages; None: tasks by bucket."""

    maintained: IncrementalQuery
    plan: KeyedPlan
    batch: KeyedBatch
    before: StateManifest
    ended: Mapping[tuple[str, str], int]
    files: StateFiles
    reports: Accumulator[Reports]
    writes: bool
    one_task: OneTask | None = None
    held: list[DataFrame] = field(default_factory=list)

    def build(self, frame: DataFrame) -> DataFrame:
        """Return the changes of the query's result, ROW_KIND last."""
        changes = (
            self._by_bucket(frame)
            if self.one_task is None
            else self._in_one_task(frame, self.one_task)
        )
        return select_sql(changes, [quoted(name) for name in (*self.maintained.columns, ROW_KIND)])

    @property
    def counting(self) -> str | None:
        """A stage of the tasks that return the result, whose reports tell its rows; None: Spark computes it."""
        last = last_relation(self.maintained)
        steps = self.plan.steps if self.one_task is None else (self.one_task.stages,)
        returning = next(stages for stages in steps if stages[-1].name == last)
        return next((one.name for one in returning if one.name in self.plan.operators), None)

    def _in_one_task(self, frame: DataFrame, one: OneTask) -> DataFrame:
        """Return the changes of the last relation, which one task computes from those of the inputs."""
        if _is_by_bucket(frame):
            found = {}
            rows = self._pieces(one.stages, frame, self._numbers(one.stages).values())
        else:
            found = self._inputs(frame, one)
            rows = self._union(outer_inputs(one.stages), found)
        return self._computed(one.stages, rows.repartition(1))

    def _by_bucket(self, frame: DataFrame) -> DataFrame:
        """Return the changes of the last relation, which a task for each bucket computes for each stage."""
        readers = self._readers()
        found: dict[str, DataFrame] = {}
        taken = self._taken() if _is_by_bucket(frame) else None
        if len({one.stage for one in taken or ()}) > 1 or (
            taken is None and sum(map(self._readings, self.plan.steps)) > 1
        ):
            frame = self.hold(frame)
        if taken is None:
            found |= {f.name: self._feed(frame, n) for n, f in enumerate(self.maintained.feeds)}
        grouped = {one.name for one in taken or () if one.panes is not None}
        for stages in self.plan.steps:
            last = stages[-1]
            if last.name in grouped:
                continue  # the tasks that read did it
            if isinstance(last, Stateless):
                changes = self._stateless(last, found)
            else:
                changes = self._keyed(stages, self._received(stages, frame, found))
            found[last.name] = self.hold(changes) if readers[last.name] > 1 else changes
        return found[last_relation(self.maintained)]

    def is_complete(self, reports: Sequence[TaskReport]) -> bool:
        """Return whether every task has reported."""
        tasks = {(report.stage, report.partition) for report in reports}
        done = Counter(stage for stage, _ in tasks)
        return all(
            done[name] == (self._tasks(operator) if self.one_task is None else 1)
            for name, operator in self.plan.operators.items()
        )

    def release(self) -> None:
        """Release what is held."""
        for frame in self.held:
            unpersist_local_checkpoint(frame)
        self.held.clear()

    def _readers(self) -> Counter[str]:
        """Count the stages that read each relation."""
        return Counter(name for stage in self.maintained.stages for name in inputs_of(stage))

    def hold(self, frame: DataFrame) -> DataFrame:
        """Keep the rows of a frame when they are computed first, within the same job."""
        held = frame.localCheckpoint(eager=False)
        self.held.append(held)
        return held

    def _readings(self, stages: Sequence[Stage]) -> int:
        """Return how often stages read the rows of the batch: once for inputs that a task takes as they are."""
        names = [name for _, name in outer_inputs(stages) if name in self._feeds]
        return 1 if names and takes_inputs(self.maintained, self.plan, stages) else len(names)

    @property
    def _feeds(self) -> Mapping[str, int]:
        """The inputs of the query by name, with their index."""
        return {feed.name: index for index, feed in enumerate(self.maintained.feeds)}

    def _feed(self, rows: DataFrame, index: int) -> DataFrame:
        """Return the rows of an input, with ROW_KIND where it has changes."""
        if len(self.maintained.feeds) > 1:
            rows = rows.where(F.col(INPUT_INDEX) == F.lit(index))
        return rows.select(f"{input_column(index)}.*")

    def _changes(self, name: str, found: Mapping[str, DataFrame]) -> DataFrame:
        """Return a relation as a Calc reads it, ROW_KIND last."""
        none = name in without_kinds(self.maintained)
        kind = F.lit(0).cast("tinyint")
        return found[name].withColumn(ROW_KIND, kind) if none else found[name]

    def _stateless(self, stage: Stateless, found: Mapping[str, DataFrame]) -> DataFrame:
        if isinstance(stage, PaneAggregate):
            return grouped_by_pane(stage, found[stage.input])
        tables = {name: self._changes(name, found) for name in stage.inputs}
        first = next(iter(found.values()))
        result = over_tables(first.sparkSession, stage.query, tables)
        kind = F.col(ROW_KIND).cast("tinyint").alias(ROW_KIND)
        return result.select(*columns_of(self.plan.schemas[stage.name].names), kind)

    def _inputs(self, frame: DataFrame, one: OneTask) -> dict[str, DataFrame]:
        """Return the relations that one task reads: the inputs, and what Spark computes of them."""
        outer = [name for _, name in outer_inputs(one.stages)]
        own = {stage.name for stage in one.stages}
        by_spark = [stage for stage in self.maintained.stages if stage.name not in own]
        read = Counter([*outer, *(name for stage in by_spark for name in inputs_of(stage))])
        if sum(read[name] for name in self._feeds) > 1:
            frame = self.hold(frame)
        found = {feed.name: self._feed(frame, n) for n, feed in enumerate(self.maintained.feeds)}
        for stage in by_spark:
            assert isinstance(stage, Calc | PaneAggregate), "stages with state are the task's"
            changes = self._stateless(stage, found)
            found[stage.name] = self.hold(changes) if read[stage.name] > 1 else changes
        return found

    def _received(
        self, stages: Sequence[Stage], frame: DataFrame, found: Mapping[str, DataFrame]
    ) -> DataFrame:
        """Return the rows of tasks: the changes of their inputs with the buckets of their keys."""
        outer = outer_inputs(stages)
        if _is_by_bucket(frame) and (numbers := self._numbers(stages)):
            pieces = self._pieces(stages, frame, numbers.values())
            others = [of for of in outer if (of[0].name, of[1]) not in numbers]
            return self._union(others, found, pieces) if others else pieces
        if takes_inputs(self.maintained, self.plan, stages):
            return self._tagged_at_once(frame, outer)
        return self._union(outer, found)

    def _union(
        self,
        outer: Sequence[tuple[Stage, str]],
        found: Mapping[str, DataFrame],
        pieces: DataFrame | None = None,
    ) -> DataFrame:
        """Return the changes of relations that stages read as the rows of tasks, with those that come by bucket."""
        read = [
            with_columns(found[name], self.plan.computed.get(stage.name, {}).get(name, ()))
            for stage, name in outer
        ]
        first = 0 if pieces is None else len(self._taken())
        rows, *others = (self._tagged(n, outer, read, first) for n in range(len(outer)))
        if pieces is not None:
            others = [_with_pieces(more, pieces) for more in (rows, *others)]
            rows = _with_structs(pieces, rows)
        for more in others:
            rows = rows.unionAll(more)
        return rows

    def _keyed(self, stages: Sequence[Stage], rows: DataFrame) -> DataFrame:
        """Return the changes of the last of the stages that run in tasks together, one for each bucket."""
        tasks = self._tasks(self.plan.operators[stages[0].name])
        if any(self._releases(stage) for stage in stages):
            rows = rows.unionAll(each_bucket(rows, tasks))
        return self._computed(stages, rows.repartitionById(tasks, F.col(BUCKET)))

    def _computed(self, stages: Sequence[Stage], rows: DataFrame) -> DataFrame:
        """Return what tasks compute of their rows: the changes of the last of their stages."""
        columns = dict(self._numbers(stages)) if _is_by_bucket(rows) else {}
        outer = ((stage.name, name) for stage, name in outer_inputs(stages))
        others = (of for of in outer if of not in columns)
        columns |= {of: n for n, of in enumerate(others, len(self._taken()) if columns else 0)}
        result = self._result(stages[-1])
        returned = self._returned(stages[-1], result.names)
        task = StageTask(
            stages=tuple(self._in_task(stage, columns) for stage in stages),
            returned=returned,
            batch=self.batch,
            files=self.files,
            state_id=self.before.state_id,
            reports=self.reports,
            writes=self.writes,
            all_buckets=self.one_task is not None,
        )
        return map_in_arrow(rows, task, s.StructType([result.fields[n] for n in returned]))

    def _returned(self, stage: Stage, names: Sequence[str]) -> tuple[int, ...]:
        """Return the indexes of the columns of a stage's result that somebody reads."""
        is_last = stage.name == last_relation(self.maintained)
        wanted = (*self.maintained.columns, ROW_KIND)
        positions = {name: n for n, name in enumerate(names)}
        is_named = len(positions) == len(names) and positions.keys() >= set(wanted)
        if is_last and is_named and not self._readers()[stage.name]:
            return tuple(positions[name] for name in wanted)
        return tuple(range(len(names)))

    def _releases(self, stage: Stage) -> bool:
        """Return whether the watermark may release rows of a stage, in whichever bucket they are."""
        operator = self.plan.operators[stage.name]
        if not isinstance(operator, WatermarkOperator) or not operator.waits_for:
            return False
        span = self.batch.span(operator.waits_for)
        stored = any(bucket.stage == stage.name for bucket in self.before.files)
        return stored and span.now_ms != span.before_ms

    def _in_task(
        self, stage: Stage, columns: Mapping[tuple[str, str], int]
    ) -> TaskStage | TaskCalc:
        """Return a stage as a task runs it; `columns` are the numbers of the inputs that come from outside."""
        inputs = tuple(
            TaskInput(
                name=name,
                schema=self._read(stage, name),
                inserts=name in without_kinds(self.maintained),
                column=columns.get((stage.name, name)),
                shuffled=name in shuffled_relations(self.maintained),
            )
            for name in inputs_of(stage)
        )
        result = to_arrow_schema(self._result(stage), timezone="UTC")
        if isinstance(stage, Calc):
            assert self.one_task is not None, "Spark computes it between tasks by bucket"
            query = self.one_task.calcs[stage.name]
            return TaskCalc(name=stage.name, inputs=inputs, query=query, result=result)
        operator, one = self.plan.operators[stage.name], self.one_task
        hashed = () if one is None else one.hashed.items()
        return TaskStage(
            name=stage.name,
            operator=operator,
            inputs=inputs,
            result=result,
            states={
                bucket: files
                for bucket, files in self.before.files.items()
                if bucket.stage == stage.name
            },
            ended={name: until for (own, name), until in self.ended.items() if own == stage.name},
            buckets=None if one is None else self._tasks(operator),
            hashed={name: of for (own, name), of in hashed if own == stage.name},
        )

    def _result(self, stage: Stage) -> s.StructType:
        kind = s.StructField(ROW_KIND, s.ByteType())
        return s.StructType([*self.plan.schemas[stage.name].fields, kind])

    def _tagged_at_once(self, frame: DataFrame, outer: Sequence[tuple[Stage, str]]) -> DataFrame:
        """Return the rows of several inputs of the query, as they are, as the rows of tasks."""
        feeds = self._feeds
        numbers = [feeds[name] for _, name in outer]
        number = F.col(INPUT_INDEX)
        if len(numbers) < len(feeds):
            frame = frame.where(number.isin(numbers))
        bucket, order = F.lit(0), F.lit(0).cast("bigint")
        for stage, name in outer:
            operator = self.plan.operators[stage.name]
            own = self._bucket(operator.layouts[name], f"{input_column(feeds[name])}.")
            bucket = F.when(number == F.lit(feeds[name]), own).otherwise(bucket)
            if operator.ordered:
                order = F.monotonically_increasing_id()
        rows = (F.col(input_column(of)).alias(rows_column(n)) for n, of in enumerate(numbers))
        return frame.select(bucket.alias(BUCKET), order.alias(ORDER), *rows)

    def _taken(self) -> Sequence[BucketInput]:
        found = bucket_inputs(self.maintained, self.plan)
        assert found is not None, "the batch comes by bucket"
        return found

    def _numbers(self, stages: Sequence[Stage]) -> Mapping[tuple[str, str], int]:
        """Return what comes by bucket of the inputs of some stages, by stage and name: its number."""
        own = {stage.name for stage in stages}
        return {(one.stage, one.name): n for n, one in enumerate(self._taken()) if one.stage in own}

    def _pieces(
        self, stages: Sequence[Stage], frame: DataFrame, numbers: Collection[int]
    ) -> DataFrame:
        """Return rows of the query's inputs that come by bucket as the rows of tasks."""
        if len(numbers) < len(self._taken()):
            frame = frame.where(f"{INPUT} IN ({', '.join(map(str, numbers))})")
        is_ordered = any(self._ordered(stage) for stage in stages)
        # as monotonically_increasing_id has it: the partition, then the row in it
        number = f"shiftleft(CAST(spark_partition_id() AS BIGINT), 33) + {FIRST}"
        order = number if is_ordered else "0L"
        return select_sql(frame, [BUCKET, f"{order} AS {ORDER}", INPUT, ENCODED])

    def _tagged(
        self, index: int, outer: Sequence[tuple[Stage, str]], read: Sequence[DataFrame], first: int
    ) -> DataFrame:
        """Return the changes of an input as the rows of tasks; `read` are those of all, by numbers from `first` on."""
        stage, name = outer[index]
        rows = read[index]
        is_ordered = name in self._ordered(stage)
        order = F.monotonically_increasing_id() if is_ordered else F.lit(0).cast("bigint")
        structs = [
            F.struct(*columns_of(rows.columns))
            if n == index
            else F.lit(None).cast(s.StructType(other.schema.fields))
            for n, other in enumerate(read)
        ]
        one = self.one_task is not None
        bucket = F.lit(0) if one else self._bucket(self.plan.operators[stage.name].layouts[name])
        return rows.select(
            bucket.alias(BUCKET),
            order.alias(ORDER),
            *(struct.alias(rows_column(n)) for n, struct in enumerate(structs, first)),
        )

    def _bucket(self, layout: KeyedLayout, prefix: str = "") -> Column:
        """Return the bucket of a row's key, whose columns are below `prefix`."""
        if not layout.key:
            return F.lit(0)
        columns = (F.col(f"{prefix}{quoted(name)}") for name in layout.key)
        values = [
            column.cast("bigint") if pa.types.is_integer(kind) else column
            for column, kind in zip(columns, layout.key_types, strict=True)
        ]
        return F.pmod(F.hash(*values), F.lit(self.before.buckets)).cast("int")

    def _read(self, stage: Stage, name: str) -> pa.Schema:
        """Return the columns of an input as the tasks of a stage get them, without ROW_KIND."""
        own = self.plan.read.get((stage.name, name))
        return to_arrow_schema(self.plan.schemas[name], timezone="UTC") if own is None else own

    def _ordered(self, stage: Stage) -> frozenset[str]:
        """Return the inputs of a stage whose changes count in their order."""
        return frozenset() if isinstance(stage, Calc) else self.plan.operators[stage.name].ordered

    def _tasks(self, operator: KeyedOperator) -> int:
        """Return the number of buckets: one, where everything depends on everything."""
        keys = [layout.key for layout in operator.layouts.values()]
        return self.before.buckets if all(keys) else 1
