"""How fast the JSON format decodes, and what bad records cost it: `python -m benchmarks.json_decode`.

One process, no broker, no Spark; bad records are skipped (json.ignore-parse-errors). CPU time, as other work on
the machine does not count into it; medians of several rounds over batches as a task reads them, in Python and by
`penstock-native`, in turn. Bids are flat records, Nexmark's events have a ROW for each kind, two of which are NULL.
Written to `results/json_decode.md`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.bids import bid_lines
from benchmarks.machine import describe_machine
from benchmarks.nexmark.topic import lines as event_lines
from benchmarks.nexmark.topic import nexmark_rows
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.options.option import resolve
from penstock.connector.formats import Decoder, find_format
from penstock.connector.formats.decoders import ReadsNatively
from penstock.connector.formats.json.lines import to_lines
from penstock.connector.formats.values import ArrowValues
from penstock.connector.kafka.client.native import find_native
from penstock.connector.nexmark.settings import EVENT_TYPE, ROWS

RESULTS = Path(__file__).resolve().parent / "results"
BATCH = 20_000
ROUNDS = 7
SHARES = (0.0001, 0.01, 0.5)
COLUMNS = {
    "auction": "BIGINT",
    "bidder": "BIGINT",
    "price": "BIGINT",
    "channel": "STRING",
    "url": "STRING",
    "dateTime": "TIMESTAMP(3)",
    "extra": "STRING",
}
BAD: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda line: line[:60],
    "syntax error": lambda line: line.replace(b'"price":', b'"price" '),
    "text for number": lambda line: line.replace(b'"price":', b'"price":"x","was":'),
    "no such month": lambda line: line.replace(b"2026-03", b"2026-13"),
}
SHAPES = {
    "DECIMAL": ("DECIMAL(10, 2)", "12.5"),
    "DECIMAL, rounded": ("DECIMAL(10, 2)", "12.345"),
    "BIGINT in quotes": ("BIGINT", '"12"'),
    "BYTES": ("BYTES", '"aGVsbG8gd29ybGQ="'),
    "ROW with ARRAY": ("ROW<a INT, b ARRAY<STRING>>", '{"a":1,"b":["x","y"]}'),
    "MAP": ("MAP<STRING, BIGINT>", '{"a":1,"b":2}'),
    "object in STRING": ("STRING", '{"a":1,"b":["x"]}'),
}
USED: dict[str, dict[str, str]] = {
    "q0": {
        "person": "dateTime",
        "auction": "dateTime",
        "bid": "auction, bidder, price, dateTime, extra",
    },
    "q3": {
        "person": "id, name, city, state, dateTime",
        "auction": "id, seller, category, dateTime",
        "bid": "dateTime",
    },
    "q8": {"person": "id, name, dateTime", "auction": "seller, dateTime", "bid": "dateTime"},
}
"""Fields that queries of Nexmark use: the event's time is one of three, for the watermark."""


def decoder_of(columns: dict[str, str]) -> Decoder:
    """A decoder that skips bad records."""
    chosen = find_format("json")
    options = {"json.ignore-parse-errors": "true"}
    resolved = resolve(options, chosen.options(), owner="benchmark")
    return chosen.decoder([(n, parse_type(text)) for n, text in columns.items()], resolved)


def microseconds(decoders: Sequence[Decoder], lines: Sequence[bytes]) -> list[float]:
    """CPU time for a record of each decoder, in turn, after a round to warm up."""
    values = ArrowValues.of_lines(to_lines(lines))  # as the reader of Kafka gives them
    rounds: list[list[float]] = []
    for _ in range(ROUNDS + 1):
        spent = []
        for decoder in decoders:
            begin = time.process_time()
            decoder.decode(values, str)
            spent.append((time.process_time() - begin) / len(lines) * 1e6)
        rounds.append(spent)
    return [statistics.median(each) for each in zip(*rounds[1:], strict=True)]


def cases() -> Iterator[tuple[str, dict[str, str], list[bytes]]]:
    """What is measured: name, columns, records."""
    good = bid_lines(BATCH, 0)
    yield "all good", COLUMNS, good
    rng = np.random.default_rng(0)
    for name, spoil in BAD.items():
        for share in SHARES:
            bad = rng.random(BATCH) < share
            lines = [spoil(line) if b else line for line, b in zip(good, bad, strict=True)]
            yield f"{share:.2%} {name}", COLUMNS, lines
    for name, (text, value) in SHAPES.items():
        more = f',"v":{value}}}'.encode()
        yield f"with {name}", COLUMNS | {"v": text}, [line[:-1] + more for line in good]
    yield "one column of seven", {"dateTime": COLUMNS["dateTime"]}, good
    yield "no column, COUNT(*)", {}, good
    events = list(event_lines(nexmark_rows(BATCH * 4, 1), BATCH * 4, 0))
    yield (
        "Nexmark, all fields",
        event_columns({name: list(kinds) for name, kinds in ROWS.items()}),
        events,
    )
    for query, used in USED.items():
        columns = event_columns({name: fields.split(", ") for name, fields in used.items()})
        yield f"Nexmark, fields of {query}", columns, events


def event_columns(used: dict[str, list[str]]) -> dict[str, str]:
    """Columns of Nexmark's events with as many fields in their ROWs."""
    rows = {
        name: f"ROW<{', '.join(f'`{field}` {ROWS[name][field]}' for field in fields)}>"
        for name, fields in used.items()
    }
    return {EVENT_TYPE: "INT", **rows}


def main() -> int:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", default="", help="what else ran on the machine, for the result")
    options = parser.parse_args()
    found = find_native()
    if found.package is None:
        print(f"error: {found.text}; `make native` builds it", file=sys.stderr)
        return 2
    (row,) = decoder_of(COLUMNS).decode(bid_lines(1, 0), str).batch.to_pylist()
    assert None not in row.values(), "the records fit the columns"
    table = []
    for name, columns, lines in cases():
        plain, reading = decoder_of(columns), decoder_of(columns)
        assert isinstance(reading, ReadsNatively), "the format's decoder is"
        in_python, natively = microseconds([plain, reading.natively(found.package)], lines)
        size = sum(map(len, lines)) / len(lines)
        table.append(
            f"| {name} | {size:.0f} | {in_python:.2f} | {natively:.2f} | {natively / in_python:.2f} |"
        )
        print(table[-1], file=sys.stderr, flush=True)
    beside = f"; beside: {options.beside}" if options.beside else ""
    about = (
        f"Batches of {BATCH:,} records in one process; CPU µs a record, which is CPU s for 1,000,000 records: "
        f"medians of {ROUNDS} rounds after a warm-up, all in one run of `python -m benchmarks.json_decode`. Nexmark's "
        "columns are what a query and its watermark use of the three ROWs. Where `penstock-native` does not read a "
        "column's type, or leaves too many records, both figures are of the decoder in Python."
    )
    text = [
        "# CPU time of decoding a JSON record",
        "",
        about,
        "",
        "| | bytes | in Python | with `penstock-native` | of that in Python |",
        "|---|---:|---:|---:|---:|",
        *table,
        "",
        f"{describe_machine()}{beside}; {found.text}",
    ]
    (RESULTS / "json_decode.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
