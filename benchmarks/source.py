"""`make bench`: how fast Kafka is read, by Penstock, by Spark's own source with `from_json`, by Flink SQL, and raw.

One broker, one topic; everyone reads all of it in turn, a warm-up and then the rounds that count, so that a slow
minute of the machine hits all alike. CPU time is that of a contestant's processes, all that it started included; the
broker's is counted apart. Medians go to `results/source.md`, every run to `results/source.json`; those of a run about
what metrics and the status page cost (`observed.py`) to `observed.md` and `observed.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.bids import PARTITIONS, write_bids
from benchmarks.contestants import REST, SPARK_CONF, TUNED_CONF, TUNED_SOURCE
from benchmarks.cpu import CpuTime, spent
from benchmarks.flink_environment import REQUIREMENT, flink_command, unusable
from benchmarks.flink_sql import CONF as FLINK_CONF
from benchmarks.flink_sql import HEAP_MB as FLINK_HEAP_MB
from benchmarks.flink_sql import SOURCE_CONF as FLINK_SOURCE
from benchmarks.machine import describe_machine, machine
from benchmarks.observed import GOAL as OBSERVED_GOAL
from benchmarks.observed import Rest, is_about_observing, looked, rest_text
from benchmarks.observers import Asked
from benchmarks.workers import LostWorkerError, Worker, running
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.connector.kafka.client.native import SWITCH, find_native

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TOPIC = "bids"
GOAL = 1.5
"""Penstock without penstock-native over Spark's own source, into nothing and into Delta: less is a failure."""

Key = tuple[str, str]
"""A contestant and a sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A contestant: the class that serves it, the sinks it takes with what to call them, its environment."""

    who: str
    titles: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)


def _penstock(name: str) -> dict[str, str]:
    return {
        "bytes": f"{name}, nothing decoded",
        "noop": name,
        "delta": f"{name} → Delta, written by Spark",
        "tasks": f"{name} → Delta, written by the reading tasks",
        "window": f"{name}, windowed count → Delta",
    }


ENTRIES = {
    "raw": Entry(who="raw", titles={"bytes": "librdkafka by confluent-kafka, nothing decoded"}),
    "drain": Entry(who="drain", titles={"bytes": "librdkafka by penstock-native, nothing decoded"}),
    "spark": Entry(
        who="spark",
        titles={
            "bytes": "Spark's Kafka source, nothing decoded",
            "noop": "Spark's Kafka source + from_json",
            "delta": "Spark's Kafka source + from_json → Delta",
            "window": "Spark's Kafka source + from_json, windowed count → Delta",
        },
    ),
    "flink": Entry(
        who="flink",
        titles={
            "noop": "Flink SQL → blackhole",
            "window": "Flink SQL, windowed count → blackhole",
        },
    ),
    "penstock": Entry(who="penstock", titles=_penstock("Penstock"), variables={SWITCH: "0"}),
    "native": Entry(
        who="penstock", titles=_penstock("Penstock with penstock-native"), variables={SWITCH: "1"}
    ),
    "observed": Entry(
        who="observed",
        titles={sink: f"{_penstock('Penstock')[sink]}, observed" for sink in ("tasks", "window")},
        variables={SWITCH: "0"},
    ),
    "before": Entry(
        who="penstock",
        titles={"noop": "Penstock as it was", "delta": "Penstock as it was → Delta"},
    ),
}
NEED_NATIVE = ("drain", "native")
NAMED = ("observed",)
"""Who takes part only where it is named: Penstock while metrics and status page are looked at."""

COMPARED = {
    "bytes": "bytes",
    "noop": "noop",
    "delta": "delta",
    "tasks": "delta",
    "window": "window",
}
"""The sinks of Penstock, and the sink of another that each is compared with."""


@dataclass(slots=True)
class Runner:
    """A contestant's process."""

    name: str
    folder: Path
    worker: Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One read of the whole topic."""

    seconds: float
    cpu: CpuTime
    broker: CpuTime


@dataclass(slots=True)
class Measured:
    """The rounds that count, by contestant and sink."""

    rows: int
    turns: dict[Key, list[Turn]] = field(default_factory=dict)
    lost: dict[Key, str] = field(default_factory=dict)
    asked: Asked = field(default_factory=Asked)
    rest: Rest | None = None

    def rate(self, key: Key) -> float:
        """Median rows a second."""
        return self.rows / statistics.median(turn.seconds for turn in self.turns[key])

    def each_us(self, key: Key, of: Callable[[Turn], float]) -> float:
        """Median CPU time a row, in µs."""
        return statistics.median(of(turn) for turn in self.turns[key]) / self.rows * 1e6

    def ratio(self, key: Key, other: Key) -> float | None:
        """One rate over another; None where one was not measured."""
        if key not in self.turns or other not in self.turns:
            return None
        return self.rate(key) / self.rate(other)


def main() -> int:
    """Exit status 1 when a contestant failed, or Penstock without penstock-native is below its goal."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument(
        "--contestants",
        default="",
        help=f"a part of them, separated by commas: {', '.join(ENTRIES)}; default: all that can run, "
        f"but for {', '.join(NAMED)}",
    )
    parser.add_argument(
        "--sinks", default="", help=f"a part of them: {', '.join(COMPARED)}; default: all"
    )
    parser.add_argument(
        "--beside", type=Path, help="a checkout of an earlier Penstock, measured in the same run"
    )
    parser.add_argument(
        "--flink",
        type=Path,
        metavar="VENV",
        help="an environment with apache-flink; made by `python -m benchmarks.flink_environment VENV`",
    )
    arguments = parser.parse_args()
    names = chosen(arguments.contestants, arguments.beside, arguments.flink)
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        measured = measure(folder, names, arguments)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = report(measured, arguments.rounds)
    arguments.results.mkdir(parents=True, exist_ok=True)
    stem = "observed" if is_about_observing(names) else "source"
    (arguments.results / f"{stem}.md").write_text(text, encoding="utf-8")
    (arguments.results / f"{stem}.json").write_text(as_json(measured), encoding="utf-8")
    print(text)
    return 0 if reaches_goal(measured) and not measured.lost else 1


def chosen(text: str, beside: Path | None, flink: Path | None) -> list[str]:
    """Who takes part: those that were named, of those that can run. Says who cannot, and why."""
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    wanted = wanted or [name for name in ENTRIES if name not in NAMED]
    if unknown := [name for name in wanted if name not in ENTRIES]:
        raise SystemExit(
            f"error: no contestant {', '.join(unknown)}; there are {', '.join(ENTRIES)}"
        )
    native = find_native()
    missing = {name: native.text for name in NEED_NATIVE if native.package is None}
    if beside is None:
        missing["before"] = "it needs --beside CHECKOUT"
    if reason := unusable(flink):
        missing["flink"] = reason
    for name in wanted:
        if name in missing:
            progress(f"left out: {name}: {missing[name]}")
    if not (found := [name for name in wanted if name not in missing]):
        raise SystemExit("error: nobody is left to run")
    return found


def measure(folder: Path, names: Sequence[str], arguments: argparse.Namespace) -> Measured:
    """Start everyone, let them read in turn, stop everyone."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(folder / "kafka", heap_mb=1024))
        written = write_bids(broker.bootstrap, TOPIC, arguments.rows)
        progress(f"{written:,} bids written; starting the contestants")
        measured = Measured(rows=written)
        runners = []
        for name in names:
            with reporting_loss(measured, (name, "start")):
                one = started(name, broker.bootstrap, folder, arguments.beside, arguments.flink)
                runners.append(stack.enter_context(one))
        assert broker.pid is not None, "it runs"
        sinks = arguments.sinks.split(",") if arguments.sinks else list(COMPARED)
        for number in range(arguments.rounds + 1):
            for runner in runners:
                for sink in (each for each in ENTRIES[runner.name].titles if each in sinks):
                    if (runner.name, sink) in measured.lost:
                        continue
                    with reporting_loss(measured, (runner.name, sink)):
                        take_turn(runner, sink, number, measured, broker.pid)
                    shutil.rmtree(runner.folder / f"{sink}_{number}", ignore_errors=True)
        for runner in (each for each in runners if each.name == "observed"):
            with reporting_loss(measured, (runner.name, REST)):
                progress("a pipeline that waits, alone and observed")
                measured.rest = at_rest(runner)
    return measured


def at_rest(runner: Runner) -> Rest:
    """Look at a pipeline that waits. Raises LostWorkerError."""
    found = runner.worker.ask(f"{REST} 0")
    if "error" in found:
        raise LostWorkerError(found["error"])
    return Rest(alone=tuple(found["alone"]), observed=tuple(found["observed"]))


@contextmanager
def reporting_loss(measured: Measured, key: Key) -> Iterator[None]:
    """Note a contestant that fails on a sink, and go on."""
    try:
        yield
    except LostWorkerError as error:
        progress(f"error: {' '.join(key)}: {error}")
        measured.lost[key] = str(error)


def take_turn(runner: Runner, sink: str, number: int, measured: Measured, broker_pid: int) -> None:
    """One read of the whole topic; round 0 is the warm-up and does not count."""
    cpu, broker = spent(runner.worker.process.pid), spent(broker_pid)
    result = runner.worker.ask(f"{sink} {number}")
    if "error" in result:
        raise LostWorkerError(result["error"])
    turn = Turn(
        seconds=result["seconds"],
        cpu=spent(runner.worker.process.pid) - cpu - CpuTime(other_s=result.get("aside_s", 0.0)),
        broker=spent(broker_pid) - broker,
    )
    if result["rows"] != measured.rows:
        raise LostWorkerError(f"it read {result['rows']} rows of {measured.rows}")
    progress(
        f"{'warm-up' if number == 0 else f'round {number}'}  {runner.name:9} {sink:6} "
        f"{measured.rows / turn.seconds:12,.0f} rows/s {turn.cpu.total_s / measured.rows * 1e6:7.2f} µs"
    )
    if number > 0:
        measured.turns.setdefault((runner.name, sink), []).append(turn)
        if "asked" in result:
            measured.asked += Asked(**result["asked"])


@contextmanager
def started(
    name: str, bootstrap: str, folder: Path, beside: Path | None, flink: Path | None
) -> Iterator[Runner]:
    """A contestant ready for orders; it ends when its standard input does."""
    entry = ENTRIES[name]
    checkout = beside.resolve() if name == "before" and beside is not None else ROOT
    home = folder / name
    home.mkdir()
    arguments = [bootstrap, TOPIC, str(home)]
    if name == "flink" and flink is not None:
        command = flink_command(flink, arguments)
    else:
        command = [sys.executable, "-m", "benchmarks.contestants", entry.who, *arguments]
    with running(command, checkout=checkout, variables=entry.variables) as worker:
        worker.answer()
        yield Runner(name, home / entry.who, worker)


def reaches_goal(measured: Measured) -> bool:
    """Whether Penstock without penstock-native is as fast as it has to be, and being observed costs as little."""
    ratios = [
        measured.ratio(("penstock", sink), ("spark", COMPARED[sink])) for sink in ("noop", "tasks")
    ]
    part = observed_part(measured)
    fast = all(ratio is None or ratio >= GOAL for ratio in ratios)
    return fast and (part is None or part <= OBSERVED_GOAL)


def observed_part(measured: Measured) -> float | None:
    """Return what being observed costs a pipeline that waits, as a part of the CPU time of one that reads."""
    run_cpu = cpu_of_a_run(measured)
    return None if measured.rest is None or run_cpu is None else measured.rest.cost / run_cpu


def cpu_of_a_run(measured: Measured) -> float | None:
    """Return the CPU time a second of a run that is not observed; None where there was none."""
    for (name, _), turns in measured.turns.items():
        if name == "penstock":
            return statistics.median(turn.cpu.total_s / turn.seconds for turn in turns)
    return None


def report(measured: Measured, rounds: int) -> str:
    """The result as a page."""
    about = is_about_observing([name for name, _ in measured.turns])
    lines = [
        "# What metrics and the status page cost" if about else "# Reading Kafka",
        "",
        (
            f"{measured.rows:,} JSON bids of 184 bytes in {PARTITIONS} partitions, broker on the same machine; median "
            f"of {rounds} rounds after a warm-up, all in one run of `make bench`. CPU: user and system time of all "
            "processes of a contestant; the broker's apart."
        ),
        "",
        "| | rows/s | CPU µs a row | of it Java | broker, µs a row | runs, s |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name, entry in ENTRIES.items():
        for sink, title in entry.titles.items():
            if (key := (name, sink)) in measured.turns:
                lines.append(table_row(measured, key, title))
    lines += [
        "",
        *ratio_table(measured),
        *observed_text(measured),
        *windowed_text(measured),
        *settings_text(measured),
        *(
            f"Failed, and left out from then on: {name} {sink}: {why.splitlines()[0]}\n"
            for (name, sink), why in measured.lost.items()
        ),
        f"{describe_machine()}; {find_native().text}",
        "",
    ]
    return "\n".join(lines)


def table_row(measured: Measured, key: Key, title: str) -> str:
    """One contestant and sink."""
    runs = ", ".join(f"{turn.seconds:.2f}" for turn in measured.turns[key])
    cpu = (
        measured.each_us(key, lambda turn: turn.cpu.total_s),
        measured.each_us(key, lambda turn: turn.cpu.java_s),
        measured.each_us(key, lambda turn: turn.broker.total_s),
    )
    shown = " | ".join(f"{one:.2f}" for one in cpu)
    return f"| {title} | {measured.rate(key):,.0f} | {shown} | {runs} |"


def ratio_table(measured: Measured) -> list[str]:
    """Rates of Penstock over those of others."""
    kinds = [name for name in ("penstock", "native") if (name, "noop") in measured.turns]
    rows = []
    for other, title in (
        ("spark", "Spark's own source"),
        ("flink", "Flink SQL"),
        ("before", "Penstock as it was"),
        ("drain", "librdkafka by penstock-native"),
    ):
        for sink, against in COMPARED.items():
            found = [measured.ratio((kind, sink), (other, against)) for kind in kinds]
            if any(found):
                shown = " | ".join("" if one is None else f"{one:.2f}" for one in found)
                rows.append(f"| {ENTRIES['penstock'].titles[sink]}, over {title} | {shown} |")
    if not rows:
        return []
    titles = [ENTRIES[kind].titles["noop"] for kind in kinds]
    return [f"| | {' | '.join(titles)} |", f"|---|{'---:|' * len(kinds)}", *rows, ""]


def observed_text(measured: Measured) -> list[str]:
    """What it costs Penstock that metrics and the status page are asked."""
    found = []
    for sink, title in ENTRIES["observed"].titles.items():
        own, alone = ("observed", sink), ("penstock", sink)
        if own in measured.turns and alone in measured.turns:
            cpu = [measured.each_us(key, lambda turn: turn.cpu.total_s) for key in (own, alone)]
            rate = measured.rate(own) / measured.rate(alone) - 1
            found.append(f"{title}: {cpu[0] / cpu[1] - 1:+.1%} CPU time a row, {rate:+.1%} rows/s.")
    if not found:
        return []
    lines = [
        looked(measured.asked),
        "",
        "Against Penstock alone, in turns with it, which also differ by themselves:",
    ]
    lines += ["", *(f"- {line}" for line in found), ""]
    run_cpu = cpu_of_a_run(measured)
    if measured.rest is not None and run_cpu is not None:
        lines += [rest_text(measured.rest, run_cpu), ""]
    return lines


def windowed_text(measured: Measured) -> list[str]:
    """What is counted, where it was."""
    if not any(sink == "window" for _, sink in measured.turns):
        return []
    text = "The windowed count is one by channel in windows of ten seconds, with a watermark ten seconds behind."
    return [text, ""]


def settings_text(measured: Measured) -> list[str]:
    """What Spark's own source and Flink are tuned with."""
    lines = []
    present = {name for name, _ in measured.turns}
    if "spark" in present:
        common = ", ".join(f"`{key}` = {value}" for key, value in SPARK_CONF.items())
        lines += [
            f"Both Sparks: {common}. Penstock otherwise has its defaults. Spark's own source, as an expert sets it:",
            "",
            *settings_table({**TUNED_SOURCE, **TUNED_CONF}),
        ]
    if "flink" in present:
        lines += [
            (
                f"{REQUIREMENT}, a cluster in one Java process (`-Xmx{FLINK_HEAP_MB}m`), as an expert sets it; results "
                "go into `blackhole`, and nothing is checkpointed:"
            ),
            "",
            *settings_table({**FLINK_SOURCE, **FLINK_CONF}),
        ]
    return lines


def settings_table(settings: Mapping[str, tuple[str, str]]) -> list[str]:
    """Settings, and why."""
    rows = (f"| `{key}` | `{value}` | {why} |" for key, (value, why) in settings.items())
    return ["| | | why |", "|---|---|---|", *rows, ""]


def as_json(measured: Measured) -> str:
    """Every run, for comparisons over time."""
    runs = [
        {
            "contestant": name,
            "sink": sink,
            "seconds": [turn.seconds for turn in turns],
            "cpu_s": [round(turn.cpu.total_s, 2) for turn in turns],
            "cpu_java_s": [round(turn.cpu.java_s, 2) for turn in turns],
            "broker_cpu_s": [round(turn.broker.total_s, 2) for turn in turns],
            "rows_per_s": measured.rate((name, sink)),
        }
        for (name, sink), turns in measured.turns.items()
    ]
    ratios = {
        f"{kind} {sink}": measured.ratio((kind, sink), ("spark", against))
        for kind in ("penstock", "native")
        for sink, against in COMPARED.items()
        if (kind, sink) in measured.turns
    }
    document = {"machine": machine(), "rows": measured.rows, "runs": runs, "over_spark": ratios}
    if measured.asked.events:
        document["asked"] = asdict(measured.asked)
    if measured.rest is not None:
        document["rest_cpu_s_a_second"] = asdict(measured.rest)
    return json.dumps(document, indent=2) + "\n"


def progress(text: str) -> None:
    """One line while it runs."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
