"""Pipelines over topics of their own, for the tests of what is shown of running jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from penstock.sql.clock import SystemClock
from penstock.sql.jobs.job import Job
from penstock.sql.observation.sentence import Sentence, SentenceRule
from penstock.sql.session.session import Session
from tests.integration.pipeline import wait_until
from tests.kafka_server import KafkaServer

TIMED = "id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
PLAIN = "id BIGINT"
COUNT = """
INSERT INTO counted SELECT window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end
"""
SINKS = """
CREATE TABLE ids (id BIGINT) WITH ('connector' = 'delta', 'path' = 'ids');
CREATE TABLE nowhere (id BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE counted (window_start TIMESTAMP(3), n BIGINT) WITH ('connector' = 'delta', 'path' = 'counted');
"""


class Pipeline:
    """A session in an empty project, whose tables read topics of their own."""

    def __init__(self, session: Session, kafka: KafkaServer) -> None:
        self.session = session
        self.kafka = kafka
        self.jobs: list[Job] = []
        for statement in filter(str.strip, SINKS.split(";")):
            session.sql(statement)

    def table(self, name: str, columns: str = TIMED, *, partitions: int = 1, **options: str) -> str:
        """Define a table over a new topic; `options` have `_` for `.` and `-` twice."""
        topic = self.kafka.create_topic(partitions=partitions)
        more = "".join(
            f", '{key.replace('__', '-').replace('_', '.')}' = '{value}'"
            for key, value in options.items()
        )
        self.session.sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'kafka', 'topic' = '{topic}', "
            f"'properties.bootstrap.servers' = '{self.kafka.bootstrap}', 'format' = 'json', "
            f"'scan.startup.mode' = 'earliest-offset'{more})"
        )
        return topic

    def write(self, topic: str, times: Sequence[str], partition: int = 0) -> None:
        """Write a record for each time of 2024-05-01."""
        rows = [{"id": n, "ts": f"2024-05-01 {at}"} for n, at in enumerate(times)]
        self.kafka.produce_json(topic, rows, partition=partition)

    def function(self, project: Path, name: str, body: str) -> None:
        """Register a function of a BIGINT `n`, whose lines are `body`."""
        (project / f"module_of_{name}.py").write_text(
            "import time\nfrom pathlib import Path\n\nfrom pyspark.sql.functions import udf\n\n\n"
            f"@udf('bigint')\ndef {name}(n):\n{body}\n",
            encoding="utf-8",
        )
        self.session.sql(f"CREATE FUNCTION {name} AS 'module_of_{name}.{name}' LANGUAGE PYTHON")

    def start(self, insert: str) -> Job:
        """Start an INSERT."""
        job = self.session.sql(insert)
        assert isinstance(job, Job)
        self.jobs.append(job)
        return job

    def said(
        self, job: Job, rule: SentenceRule, *, later_ms: int = 0, also: Callable[[str], bool] = bool
    ) -> str:
        """Wait until the job says the sentence of a rule; the sentence."""
        last: list[Sentence] = []

        def holds() -> bool:
            last[:] = [job.observed.sentence(SystemClock().now_ms() + later_ms)]
            return last[0].rule is rule and also(str(last[0]))

        try:
            wait_until(holds, seconds=60, what=f"the sentence of {rule}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {last[0]} ({last[0].rule})") from error
        return str(last[0])


@contextmanager
def running_pipeline(spark: SparkSession, kafka: KafkaServer) -> Iterator[Pipeline]:
    """A pipeline whose jobs start at most once, and are stopped at the end."""
    with penstock.connect(spark) as session:
        session.sql("SET 'restart-strategy.type' = 'none'")
        pipeline = Pipeline(session, kafka)
        yield pipeline
        for job in pipeline.jobs:
            job.request_stop(now=True)
        for job in pipeline.jobs:
            job.wait(30)
