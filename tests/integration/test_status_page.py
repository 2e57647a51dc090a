"""The status page of a pipeline that runs, in a browser: a paused split with its reason, and a broker that dies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.support.wait import WebDriverWait

import penstock
from penstock.sql.jobs.job import Job
from penstock.sql.session.session import Session
from penstock.sql.ui.application import StatusView
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.server import serving_pages
from tests.browser import Browser
from tests.integration.pipeline import wait_until
from tests.kafka_server import KafkaServer

BASE = datetime(2024, 3, 1)
TABLE = """
CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
      'scan.startup.mode' = 'earliest-offset', 'format' = 'json',
      'scan.watermark.alignment.group' = 'shop', 'scan.watermark.alignment.max-drift' = '60 s')
"""
SINK = "CREATE TABLE joined (id BIGINT) WITH ('connector' = 'delta', 'path' = 'joined')"
JOIN = """
INSERT INTO joined SELECT a.id FROM orders AS a JOIN visits AS b
ON a.id = b.id AND b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '5' SECOND
"""
PAUSED_VISITS = """
const section = [...document.querySelectorAll('section')].find((each) => each.textContent.includes('Table visits'));
return section?.querySelector('.status.paused')?.closest('tr').textContent ?? '';
"""
SENTENCE = "return document.querySelector('.sentence')?.textContent ?? ''"


@pytest.fixture
def session(spark: SparkSession, project: Path) -> Iterator[Session]:
    """A session in an empty project."""
    with penstock.connect(spark) as session:
        yield session


@pytest.fixture
def joined(session: Session, kafka: KafkaServer, topic) -> Job:
    """A join of two topics, one of which is a day ahead of the other."""
    for name, day in (("orders", 0), ("visits", 1)):
        made = topic()
        session.sql(TABLE.format(name=name, topic=made, bootstrap=kafka.bootstrap))
        times = [BASE + timedelta(days=day, seconds=second) for second in range(300)]
        kafka.produce_json(made, [{"id": n, "ts": str(at)} for n, at in enumerate(times)])
    session.sql(SINK)
    job = session.sql(JOIN)
    assert isinstance(job, Job)
    return job


@pytest.fixture
def page(session: Session, joined: Job, project: Path) -> Iterator[str]:
    """The address of the page of the join."""
    stored = StoredPipelines(namespace=session.namespace, project=project)
    with serving_pages(StatusView(jobs=lambda: [joined], stored=stored), port=0) as url:
        yield f"{url}pipelines/{joined.name}"


def running(job: Job) -> bool:
    """Whether a batch runs: a planning that dies with the broker is told, a task is tried again first."""
    return job.batches is None or job.batches.running_since_ms is not None


def test_a_page_follows_a_pipeline_into_an_outage_and_out_of_it(
    browser: Browser, page: str, kafka: KafkaServer, joined: Job
) -> None:
    """It shows the split that waits and why; within 5 s of the broker's death, then its address; and its return."""

    def until(script: str, words: str, seconds: float) -> None:
        try:
            WebDriverWait(browser.driver, seconds, 0.1).until(
                lambda _: words in str(browser.run(script))
            )
        except TimeoutException:
            pytest.fail(f"not within {seconds} s: {words}, but {browser.run(script)}")

    browser.open(page)
    until(PAUSED_VISITS, "ahead of group 'shop', which may go to 2024-03-01T00:0", 120)
    until(SENTENCE, "splits of visits are paused: ahead of group 'shop'", 60)
    wait_until(lambda: not running(joined), seconds=60, what="all that may be read is")

    kafka.broker.kill()
    try:
        until(SENTENCE, "waits for the source of ", 5)
        until(SENTENCE, f"waits for Kafka at {kafka.bootstrap}", 60)
    finally:
        kafka.broker.start()
    until(SENTENCE, "splits of visits are paused", 60)
    joined.stop()
    until("return document.querySelector('.status').textContent", "stopped", 30)
