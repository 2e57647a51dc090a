"""How fast the JSON format decodes, and what bad records cost it: `python -m benchmarks.json_decode`.

One process, no broker, no Spark; bad records are skipped (json.ignore-parse-errors). CPU time, as other work on
the machine does not count into it; medians of several rounds over batches as a task reads them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.bids import bid_lines
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.options.option import resolve
from penstock.connector.formats import Decoder, find_format
from penstock.connector.formats.decoders import ReadsNatively
from penstock.connector.kafka.client.native import find_native, native_package

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


def decoder_of(columns: dict[str, str]) -> Decoder:
    """A decoder that skips bad records."""
    chosen = find_format("json")
    options = {"json.ignore-parse-errors": "true"}
    resolved = resolve(options, chosen.options(), owner="benchmark")
    return chosen.decoder([(n, parse_type(text)) for n, text in columns.items()], resolved)


def nanoseconds(decoder: Decoder, lines: Sequence[bytes]) -> float:
    """CPU time for a record, after a round to warm up."""
    decoder.decode(lines, str)
    rounds = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        decoder.decode(lines, str)
        rounds.append((time.process_time() - begin) / len(lines) * 1e9)
    return statistics.median(rounds)


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


def natively(decoder: Decoder) -> Decoder:
    """The decoder that reads Kafka where `penstock-native` is installed."""
    package = native_package()
    if package is None or not isinstance(decoder, ReadsNatively):
        return decoder
    return decoder.natively(package)


def main() -> None:
    """Print a table."""
    (row,) = decoder_of(COLUMNS).decode(bid_lines(1, 0), str).batch.to_pylist()
    assert None not in row.values(), "the records fit the columns"
    base = 0.0
    print(f"native: {find_native().text}")
    print(f"{'records':28}{'ns/record':>10}{'rows/s':>12}{'times':>7}{'native ns':>11}")
    for name, columns, lines in cases():
        cost = nanoseconds(decoder_of(columns), lines)
        native = nanoseconds(natively(decoder_of(columns)), lines)
        base = base or cost
        row = f"{name:28}{cost:10.0f}{1e9 / cost:12,.0f}{cost / base:7.2f}{native:11.0f}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
