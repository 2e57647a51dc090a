"""Kafka tables in plain Spark SQL: what the topic holds when the query starts, changes as what they have come to."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from tests.kafka_server import KafkaServer


def test_spark_sql_reads_topics_as_they_are_now(
    spark: SparkSession, kafka: KafkaServer, project: Path
) -> None:
    """A query sees what was written before it; of a keyed topic the newest row of each key, and no deleted one."""
    plain, keyed = kafka.create_topic(partitions=2), kafka.create_topic(partitions=1)
    with penstock.connect(spark, publish="session") as session:
        for name, connector, key, topic, more in (
            (
                "plain",
                "kafka",
                "",
                plain,
                "'format' = 'json', 'scan.startup.mode' = 'earliest-offset'",
            ),
            (
                "keyed",
                "upsert-kafka",
                ", PRIMARY KEY (id) NOT ENFORCED",
                keyed,
                "'key.format' = 'json', 'value.format' = 'json'",
            ),
        ):
            session.sql(f"""
                CREATE TABLE {name} (id BIGINT, v STRING{key})
                WITH ('connector' = '{connector}', 'topic' = '{topic}', {more},
                      'properties.bootstrap.servers' = '{kafka.bootstrap}')""")
        kafka.produce_json(plain, [{"id": 1, "v": "a"}])
        before = spark.sql("SELECT count(*) FROM plain").first()
        kafka.produce_json(plain, [{"id": 2, "v": "b"}])
        for id_, v in ((1, "a"), (2, "b"), (1, "c"), (2, None)):
            value = None if v is None else json.dumps({"id": id_, "v": v})
            kafka.produce(keyed, [value], keys=[json.dumps({"id": id_})])

        assert before == (1,)
        assert spark.sql("SELECT count(*) FROM plain").first() == (2,)
        assert spark.table("keyed").collect() == [(1, "c")]
        assert session.table("keyed").collect() == [(1, "c")]
