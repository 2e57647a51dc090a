"""The draft of a Kafka table, from a sample of its topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.catalog.errors import DefinitionError
from penstock.catalog.redaction import redact
from penstock.connector.changelog import ChangelogMode
from penstock.connector.formats import find_format
from penstock.connector.inferring.draft import PROPOSAL, Draft
from penstock.connector.inferring.event_time import EventTime, propose_event_time
from penstock.connector.inferring.keys import infer_key
from penstock.connector.inferring.records import InferredRecords, infer_records
from penstock.connector.inferring.sample import Sample

__all__ = ["draft_topic"]


def draft_topic(
    sample: Sample, *, name: str, topic: str, properties: Mapping[str, str], asked: str | None
) -> Draft:
    """Draft a table of a topic. `properties` are those of the client, `asked` a format or None.

    Raises DefinitionError where nothing can be inferred.
    """
    if not sample.values:
        raise DefinitionError(
            f"{sample.origin} holds no record with a value to infer columns from",
            hint="write some records first, or take the columns from a schema registry's subject",
        )
    value = infer_records(sample, asked)
    key = infer_key(sample, value)
    timed = _event_time(replace(value, columns=key.columns), sample)
    shown = redact({f"properties.{k}": v for k, v in properties.items()})
    hidden = [k for k, v in properties.items() if shown[f"properties.{k}"] != v]
    secrets = [f"Left out: the value of {', '.join(hidden)}, which is a secret."] if hidden else []
    named = [each.name for each in sample.splits if len(each.values)]
    return Draft(
        name=name,
        columns=timed.columns,
        options=(
            ("connector", "kafka"),
            ("topic", topic),
            *shown.items(),
            ("scan.startup.mode", "earliest-offset"),
            *_format_options(value, keyed=bool(key.options)),
            *key.options,
            *value.bad_record_options,
        ),
        watermark=timed.watermark,
        watermark_remark=timed.watermark_remark,
        primary_key=key.primary_key,
        remarks=(
            f"Inferred from {sample.origin}: {sample.size:,} records, the newest of {_partitions(len(named))}.",
            PROPOSAL,
            *value.remarks,
            *key.remarks,
            *secrets,
            *timed.remarks,
        ),
    )


def _event_time(value: InferredRecords, sample: Sample) -> EventTime:
    if find_format(value.format).changes is not ChangelogMode.INSERT_ONLY:
        return EventTime(columns=value.columns)
    return propose_event_time(value.columns, value.candidates, sample)


def _format_options(value: InferredRecords, *, keyed: bool) -> list[tuple[str, str]]:
    """Name the format `value.format` beside a key's, so that it is plain which is which."""
    if not keyed:
        return list(value.options)
    return [(f"value.{key}", text) for key, text in value.options]


def _partitions(count: int) -> str:
    return f"{count:,} partition{'' if count == 1 else 's'}"
