"""Formats: how the bytes of a record become columns. Batches in, Arrow batches out.

`contract` says what a format is, `registry` finds one by name. `json` (with its `json_*` parts) and `raw` give rows;
`debezium_json`, `canal_json`, `maxwell_json` and `ogg_json` give changes of rows, read as `envelopes` by the decoder of
`json`. Connectors hand over values and learn which record each row came from, and what kind of change it is.
"""

from penstock.connector.formats.contract import Decoded, Decoder, Fields, Format, Where
from penstock.connector.formats.registry import find_format, format_names

__all__ = ["Decoded", "Decoder", "Fields", "Format", "Where", "find_format", "format_names"]
