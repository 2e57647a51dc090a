"""Formats: the bytes of records become columns. Batches in, Arrow batches out.

`contract` defines a format and finds one by name. `json` and `raw` return rows, `changelog` returns
changes of rows from JSON envelopes. Connectors pass values, and learn for each row the record it came from and
its row kind.
"""

from penstock.connector.formats.contract import (
    Decoded,
    Decoder,
    Fields,
    Format,
    Where,
    find_format,
    format_names,
)

__all__ = ["Decoded", "Decoder", "Fields", "Format", "Where", "find_format", "format_names"]
