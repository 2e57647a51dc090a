"""The options of Kafka tables as data: Flink's (KafkaConnectorOptions, FactoryUtil) with its defaults, and ours.

Read and checked together in `settings`; names of client properties are in `client/properties.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.catalog.options.option import (
    DURATION,
    INT,
    LIST,
    LONG,
    STRING,
    Option,
    OptionScope,
    PrefixOption,
    enum_type,
    optional,
)
from penstock.connector.kafka.client.properties import REFERENCES

MODES = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")


CONNECTOR = Option(
    key="connector",
    type=STRING,
    default=None,
    doc="'kafka': the records of topics, each of them an added row",
    required=True,
)
TOPIC = optional(
    LIST,
    "topic",
    "topics to read, separated by ';', or the one topic that is written; this or 'topic-pattern' is set",
)
TOPIC_PATTERN = optional(
    STRING,
    "topic-pattern",
    "Java regular expression for whole names of topics to read; new ones are found as they come",
    scope=OptionScope.SOURCE,
)
BOOTSTRAP_SERVERS = Option(
    key="properties.bootstrap.servers",
    type=STRING,
    default="",
    doc="brokers to begin with, as 'host:port,host:port'",
    required=True,
    references=True,
)
GROUP_ID = optional(
    STRING,
    "properties.group.id",
    "consumer group, for the start and for committed offsets; needed by 'scan.startup.mode' = 'group-offsets'",
    scope=OptionScope.SOURCE,
)
PROPERTIES = PrefixOption(
    prefix="properties.",
    doc="options of the Kafka client, by the names of Java's clients or librdkafka's",
    references=REFERENCES,
    flink="options of Java's clients",
)
FORMAT = optional(
    STRING, "format", "format of the record's value; this or 'value.format' is needed"
)
VALUE_FORMAT = optional(
    STRING,
    "value.format",
    "format of the record's value, in place of 'format'; its options begin with 'value.'",
)
KEY_FORMAT = optional(
    STRING,
    "key.format",
    "format of the record's key; its options begin with 'key.', and 'key.fields' are needed",
)
KEY_FIELDS = Option(
    key="key.fields", type=LIST, default=(), doc="physical columns that the key holds, in order"
)
KEY_FIELDS_PREFIX = Option(
    key="key.fields-prefix",
    type=STRING,
    default="",
    doc="prefix that the names of the key's columns have in the table, and not in the record",
)
VALUE_FIELDS_INCLUDE = Option(
    key="value.fields-include",
    type=enum_type("ALL", "EXCEPT_KEY"),
    default="ALL",
    doc="whether the value holds the key's columns too",
)
STARTUP_MODE = Option(
    key="scan.startup.mode",
    type=enum_type(*MODES),
    default="group-offsets",
    doc="where a query without a checkpoint starts to read",
)
STARTUP_OFFSETS = optional(
    STRING,
    "scan.startup.specific-offsets",
    "where each partition starts, as 'partition:0,offset:42;partition:1,offset:300'",
)
STARTUP_TIMESTAMP = optional(
    LONG, "scan.startup.timestamp-millis", "epoch ms of the first record to read"
)
BOUNDED_MODE = Option(
    key="scan.bounded.mode",
    type=enum_type("unbounded", *MODES[1:]),
    default="unbounded",
    doc="where reading ends; unbounded is never",
)
BOUNDED_OFFSETS = optional(
    STRING,
    "scan.bounded.specific-offsets",
    "where each partition ends, exclusive, as 'partition:0,offset:42;partition:1,offset:300'; "
    "not past the end that the log has when reading starts",
)
BOUNDED_TIMESTAMP = optional(
    LONG, "scan.bounded.timestamp-millis", "epoch ms of the first record not to read"
)
DISCOVERY_INTERVAL: Option[int | None] = Option(
    key="scan.topic-partition-discovery.interval",
    type=DURATION,
    default=None,
    doc="how often new partitions and topics are looked for; 0 never; default 1 s, with 'topic-pattern' 10 s",
    flink="the default is 5 min",
)
PARALLELISM = optional(
    INT,
    "scan.parallelism",
    "tasks of a batch; default one per partition, or for several with few new records",
    flink="tasks of the source operator",
)
ON_DATA_LOSS = Option(
    key="scan.on-data-loss",
    type=enum_type("fail", "continue"),
    default="fail",
    doc="what to do when records were deleted before they were read",
    flink=None,
)
MAX_RECORDS = optional(
    LONG, "scan.max-records-per-batch", "most records that a batch reads", flink=None
)
SINK_PARALLELISM = optional(
    INT,
    "sink.parallelism",
    "tasks of a write; of exactly-once, its slots",
    flink="tasks of the sink operator",
)
PARTITIONER = Option(
    key="sink.partitioner",
    type=STRING,
    default="default",
    doc="how records find their partitions: 'default' (by key, as Kafka's own), 'fixed' or 'round-robin'",
    flink="the name of a Java class, too",
)
DELIVERY_GUARANTEE = Option(
    key="sink.delivery-guarantee",
    type=enum_type("none", "at-least-once", "exactly-once"),
    default="at-least-once",
    doc="what a failure may do to written records: none (lose, repeat), at-least-once (repeat) or exactly-once",
)
TRANSACTIONAL_ID_PREFIX = optional(
    STRING,
    "sink.transactional-id-prefix",
    "first part of the names of transactions; needed by exactly-once, and no other pipeline's",
    scope=OptionScope.EXACTLY_ONCE,
)
NAMING_STRATEGY = Option(
    key="sink.transaction-naming-strategy",
    type=enum_type("INCREMENTING", "POOLING"),
    default="INCREMENTING",
    doc="accepted without effect: a slot has one transactional id here, for good",
    scope=OptionScope.EXACTLY_ONCE,
    flink="how the names of transactions are made",
)
SEMANTIC = optional(
    enum_type("none", "at-least-once", "exactly-once"),
    "sink.semantic",
    "deprecated, and read where 'sink.delivery-guarantee' is not set",
)
STAGING = Option(
    key="sink.staging",
    type=enum_type("auto", "always", "never"),
    default="auto",
    doc="whether exactly-once keeps the rows of a batch in the checkpoint before it publishes them: where a replay "
    "may give other rows (auto), always, or never, which refuses such queries",
    scope=OptionScope.EXACTLY_ONCE,
    flink=None,
)
WRITER = Option(
    key="sink.writer",
    type=enum_type("auto", "spark"),
    default="auto",
    doc="who writes the records of a stream: 'auto', the tasks that read the rows where the query takes values and "
    "conditions that they compute and the format is one that they encode, else Spark, as EXPLAIN says; 'spark' in "
    "each case",
    flink=None,
)
SINK_OPTIONS: tuple[Option[Any], ...] = (
    SINK_PARALLELISM,
    PARTITIONER,
    DELIVERY_GUARANTEE,
    TRANSACTIONAL_ID_PREFIX,
    NAMING_STRATEGY,
    SEMANTIC,
    STAGING,
    WRITER,
)
BUFFER_ROWS = Option(
    key="sink.buffer-flush.max-rows",
    type=INT,
    default=0,
    doc="above 0, the last change of each key in a micro-batch is written; 0 writes all changes",
    flink="changes that are kept back at most",
)
BUFFER_INTERVAL = Option(
    key="sink.buffer-flush.interval",
    type=DURATION,
    default=0,
    doc="set together with 'sink.buffer-flush.max-rows': above 0, the last change of each key in a micro-batch is "
    "written",
    flink="how long changes are kept back at most",
)
UPSERT_SINK_OPTIONS: tuple[Option[Any], ...] = (
    *(option for option in SINK_OPTIONS if option.key not in ("sink.partitioner", "sink.semantic")),
    BUFFER_ROWS,
    BUFFER_INTERVAL,
)

OPTIONS: tuple[Option[Any] | PrefixOption, ...] = (
    CONNECTOR,
    TOPIC,
    TOPIC_PATTERN,
    BOOTSTRAP_SERVERS,
    GROUP_ID,
    PROPERTIES,
    FORMAT,
    VALUE_FORMAT,
    KEY_FORMAT,
    KEY_FIELDS,
    KEY_FIELDS_PREFIX,
    VALUE_FIELDS_INCLUDE,
    STARTUP_MODE,
    STARTUP_OFFSETS,
    STARTUP_TIMESTAMP,
    BOUNDED_MODE,
    BOUNDED_OFFSETS,
    BOUNDED_TIMESTAMP,
    DISCOVERY_INTERVAL,
    PARALLELISM,
    ON_DATA_LOSS,
    MAX_RECORDS,
    *SINK_OPTIONS,
)

UPSERT_OPTIONS: tuple[Option[Any] | PrefixOption, ...] = (
    replace(
        CONNECTOR, doc="'upsert-kafka': topics whose records set, or delete, the row of their key"
    ),
    TOPIC,
    TOPIC_PATTERN,
    BOOTSTRAP_SERVERS,
    GROUP_ID,
    PROPERTIES,
    replace(
        KEY_FORMAT, required=True, doc="format of the record's key, which holds the PRIMARY KEY"
    ),
    replace(VALUE_FORMAT, required=True, doc="format of the record's value"),
    KEY_FIELDS_PREFIX,
    VALUE_FIELDS_INCLUDE,
    BOUNDED_MODE,
    BOUNDED_OFFSETS,
    BOUNDED_TIMESTAMP,
    DISCOVERY_INTERVAL,
    PARALLELISM,
    ON_DATA_LOSS,
    MAX_RECORDS,
    *UPSERT_SINK_OPTIONS,
)
"""Those of `upsert-kafka` (UpsertKafkaDynamicTableFactory): the key is the PRIMARY KEY, the start the beginning."""
