"""Nexmark on one machine: `python -m benchmarks.nexmark [--engines penstock,flink,spark] [--queries q0,q4]`.

One topic is recorded; query by query, each engine reads all of it. A first run writes the result into a topic and is
the warm-up: only engines whose results are those of the first one go on to the runs that count, which write nowhere.
Those are in turns, so that a slow minute of the machine hits all alike. CPU time is that of an engine's processes; the
broker's is not in it. Results go to `results/nexmark.md` and `nexmark.json` after each query; `--resume` goes on with
what is there, since 10,000,000 events take two hours. With `--paced` the queries run as streams instead: `paced`.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cpu import spent
from benchmarks.flink_environment import REQUIREMENT, unusable
from benchmarks.flink_sql import CONF as FLINK_CONF
from benchmarks.flink_sql import HEAP_MB as FLINK_HEAP_MB
from benchmarks.machine import describe_machine
from benchmarks.nexmark.answers import Answer, make_topic, read_answer
from benchmarks.nexmark.latency import MEASURES
from benchmarks.nexmark.orders import LEFT_OUT, Order, Place
from benchmarks.nexmark.paced import PACED_ARGUMENTS, add_paced_arguments, run_paced
from benchmarks.nexmark.processes import ENGINES, progress, sampled_peak, started
from benchmarks.nexmark.queries import Query, query_names, read_query
from benchmarks.nexmark.results import Key, failed_lines, results_text, stored_results
from benchmarks.nexmark.topic import PARTITIONS, SPAN_S, nexmark_rows, record_events
from benchmarks.workers import LostWorkerError, Worker
from penstock.connector.kafka.broker.broker import EmbeddedBroker

RESULTS = Path(__file__).resolve().parents[1] / "results"
TOPIC = "nexmark"
LEAST_WAIT_S = 300
LEAST_RATE = 1_000
"""Events a second; below, a run is taken for one that hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One read of the whole topic."""

    seconds: float
    cpu_s: float
    peak_bytes: int
    state_bytes: int
    rows_in: int
    batches: int
    late: int


@dataclass(slots=True, kw_only=True)
class Measured:
    """A query of an engine: its answer, the runs that count, or why there are none."""

    answer: Answer | None = None
    turns: list[Turn] = field(default_factory=list)
    lost: str = ""

    def median(self, name: str) -> float:
        """The median of a figure over the runs that count."""
        return float(statistics.median(getattr(turn, name) for turn in self.turns))


def main() -> int:
    """Exit status 1 when Penstock's and Flink's answers differ, or one of them failed."""
    chosen = parsed()
    names = [name for name in ENGINES if name in chosen.engines.split(",")]
    if "flink" in names and (reason := unusable(chosen.flink)):
        raise SystemExit(f"error: flink: {reason}; leave it out by --engines")
    if chosen.paced:
        return run_paced(names, chosen)
    queries = [read_query(name) for name in chosen.queries.split(",")]
    measured = earlier(chosen) if chosen.resume else {}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        EmbeddedBroker(Path(folder) / "kafka", heap_mb=1024) as broker,
    ):
        rows = nexmark_rows(chosen.events, chosen.seed)
        written = record_events(broker.bootstrap, TOPIC, rows, chosen.events)
        progress(f"{written:,} events written")
        for query in queries:
            if all((query.name, name) in measured for name in names):
                continue
            home = Path(folder) / query.name
            measured |= measure(broker.bootstrap, home, names, query, chosen)
            shutil.rmtree(home, ignore_errors=True)
            # a run of all of them takes half an hour or more: one that is ended early has its results, too
            text = report(measured, of_queries(measured), names, chosen)
            chosen.results.mkdir(parents=True, exist_ok=True)
            (chosen.results / "nexmark.md").write_text(text, encoding="utf-8")
            (chosen.results / "nexmark.json").write_text(
                as_json(measured, chosen), encoding="utf-8"
            )
    print((chosen.results / "nexmark.md").read_text(encoding="utf-8"))
    lost = [key for key, one in measured.items() if one.lost and key[1] != "spark"]
    both = [name for name in names if name != "spark"]
    return 1 if lost or any(differs(measured, q, both) for q in of_queries(measured)) else 0


def of_queries(measured: Mapping[Key, Measured]) -> list[Query]:
    """Return the queries that were run, in their order."""
    return [read_query(name) for name in query_names() if any(key[0] == name for key in measured)]


def earlier(chosen: argparse.Namespace) -> dict[Key, Measured]:
    """Read the results of a run that was ended early. Raises SystemExit where it was run with other arguments."""
    found = stored_results(chosen.results / "nexmark.json", recorded(chosen))
    return {
        key: Measured(
            answer=answer, turns=[Turn(**turn) for turn in one["turns"]], lost=one["lost"]
        )
        for key, answer, one in found
    }


def recorded(chosen: argparse.Namespace) -> dict[str, str]:
    """The arguments that results depend on."""
    left_out = ("flink", "results", "queries", "resume", "alone", *PACED_ARGUMENTS)
    return {name: str(value) for name, value in vars(chosen).items() if name not in left_out}


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--queries", help="default: all; with --paced those that it measures")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3, help="runs that count; 0: answers alone")
    parser.add_argument(
        "--batch-rows", type=int, default=0, help="events of a micro-batch; default: all in one"
    )
    parser.add_argument(
        "--checkpoint-ms", type=int, default=0, help="Flink's checkpoint interval; default: none"
    )
    parser.add_argument(
        "--flink",
        type=Path,
        metavar="VENV",
        help="an environment with apache-flink; made by `python -m benchmarks.flink_environment VENV`",
    )
    parser.add_argument(
        "--flink-heap-mb", type=int, default=FLINK_HEAP_MB, help="default: %(default)s"
    )
    parser.add_argument(
        "--alone",
        action="store_true",
        help="one engine's processes at a time: where the memory of one is most of the machine's",
    )
    parser.add_argument(
        "--resume", action="store_true", help="keep the queries that --results has, run the others"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    add_paced_arguments(parser)
    chosen = parser.parse_args()
    queries = list(MEASURES) if chosen.paced else query_names()
    chosen.queries = chosen.queries or ",".join(queries)
    for given, known in ((chosen.engines, list(ENGINES)), (chosen.queries, queries)):
        if unknown := [name for name in given.split(",") if name not in known]:
            parser.error(f"no {', '.join(unknown)}; there are {', '.join(known)}")
    if min(chosen.paced, chosen.warm_up, chosen.skew, chosen.seconds - 1) < 0:
        parser.error("--paced, --warm-up and --skew are not below 0, and --seconds not below 1")
    return chosen


def measure(
    bootstrap: str, home: Path, names: Sequence[str], query: Query, chosen: argparse.Namespace
) -> dict[Key, Measured]:
    """Run a query by all engines: first for the answers, then in turns for the time."""
    found = {name: Measured() for name in names}
    for together in [[name] for name in names] if chosen.alone else [names]:
        run_together(found, together, bootstrap, home, query, chosen)
    return {(query.name, name): one for name, one in found.items()}


def run_together(
    found: Mapping[str, Measured],
    names: Sequence[str],
    bootstrap: str,
    home: Path,
    query: Query,
    chosen: argparse.Namespace,
) -> None:
    """Run a query by engines whose processes are there at the same time, one of them at work."""
    with ExitStack() as stack:
        workers = {}
        for name in names:
            with noting_loss(found, name, query):
                place = Place(
                    bootstrap=bootstrap,
                    topic=TOPIC,
                    folder=str(home / name),
                    events=chosen.events,
                    batch_rows=chosen.batch_rows,
                    checkpoint_ms=chosen.checkpoint_ms,
                    flink_heap_mb=chosen.flink_heap_mb,
                )
                workers[name] = stack.enter_context(started(name, place, chosen.flink))
        for name, worker in workers.items():
            with noting_loss(found, name, query):
                worker.answer()
                topic = f"{query.name}_{name}"
                make_topic(bootstrap, topic)
                turn = take_turn(
                    worker, Order(query=query.name, name="answer", topic=topic), chosen
                )
                found[name].answer = read_answer(bootstrap, topic, query)
                progress(
                    f"{query.name:4} {name:9} answer  {turn.seconds:8.2f} s  {found[name].answer}"
                )
        reference = next((one.answer for one in found.values() if one.answer is not None), None)
        for number in range(chosen.rounds):
            for name, worker in workers.items():
                answer = found[name].answer
                if found[name].lost or answer is None or reference is None:
                    continue
                if not answer.same(reference):
                    continue
                with noting_loss(found, name, query):
                    order = Order(query=query.name, name=f"round{number}", topic="")
                    turn = take_turn(worker, order, chosen)
                    found[name].turns.append(turn)
                    progress(
                        f"{query.name:4} {name:9} round {number + 1} {turn.seconds:8.2f} s "
                        f"{turn.cpu_s:8.2f} s of CPU {turn.peak_bytes >> 20:6,} MiB"
                    )


@contextmanager
def noting_loss(found: Mapping[str, Measured], name: str, query: Query) -> Iterator[None]:
    """Note an engine that fails on a query, and go on."""
    try:
        yield
    except LostWorkerError as error:
        progress(f"{query.name:4} {name:9} failed: {error}")
        found[name].lost = str(error)


def take_turn(worker: Worker, order: Order, chosen: argparse.Namespace) -> Turn:
    """Let an engine run a query once. Raises LostWorkerError."""
    pid = worker.process.pid
    before = spent(pid)
    with sampled_peak(pid) as peak:
        within_s = LEAST_WAIT_S + chosen.events // LEAST_RATE
        answer = worker.ask(order.as_line(), within_s=within_s)
    if "error" in answer:
        raise LostWorkerError(answer["error"])
    # a table that a query names twice is read twice
    if answer.get("rows_in", chosen.events) < chosen.events:
        raise LostWorkerError(f"it read {answer['rows_in']} events of {chosen.events}")
    return Turn(
        seconds=answer["seconds"],
        cpu_s=(spent(pid) - before).total_s,
        peak_bytes=max(peak),
        state_bytes=answer.get("state_bytes", 0),
        rows_in=answer.get("rows_in", 0),
        batches=answer.get("batches", 0),
        late=answer.get("late", 0),
    )


def differs(measured: Mapping[Key, Measured], query: Query, names: Sequence[str]) -> bool:
    """Whether two engines have other answers."""
    answers = [answer for name in names if (answer := measured[query.name, name].answer)]
    return any(not answer.same(answers[0]) for answer in answers)


def report(
    measured: Mapping[Key, Measured],
    queries: Sequence[Query],
    names: Sequence[str],
    chosen: argparse.Namespace,
) -> str:
    """The result as a page."""
    lines = [
        "# Nexmark",
        "",
        setting_text(chosen),
        "",
        f"| query | rows | answers | {' | '.join(f'{ENGINES[n]}, s | CPU s | MiB | state, MiB' for n in names)} |",
        f"|---|---:|---|{'---:|---:|---:|---:|' * len(names)}",
    ]
    for query in queries:
        cells = [cell for name in names for cell in figures(measured[query.name, name])]
        rows = next((f"{a.rows:,}" for n in names if (a := measured[query.name, n].answer)), "")
        same = answers_text(measured, query, names)
        lines.append(f"| {query.name}: {query.title} | {rows} | {same} | {' | '.join(cells)} |")
    lines += ["", *totals(measured, queries, names), *losses(measured)]
    if "flink" in names:
        settings = ", ".join(
            f"`{key}` = {value}" for key, (value, _) in FLINK_CONF.items() if key not in LEFT_OUT
        )
        lines += [
            f"Flink: {REQUIREMENT}, {settings}, heap state in {chosen.flink_heap_mb:,} MiB.",
            "",
        ]
    return "\n".join([*lines, f"{describe_machine()}", ""])


def setting_text(chosen: argparse.Namespace) -> str:
    """Say what was measured."""
    batches = f"{chosen.batch_rows:,} events" if chosen.batch_rows else "all events"
    checkpoints = f"every {chosen.checkpoint_ms} ms" if chosen.checkpoint_ms else "none"
    runs = "one run" if chosen.rounds == 1 else f"medians of {chosen.rounds} runs"
    return (
        f"{chosen.events:,} events over {SPAN_S} s of event time in {PARTITIONS} partitions, seed {chosen.seed}, "
        f"broker on the same machine; {runs} into nowhere after one whose result was "
        f"compared. A micro-batch has {batches}; checkpoints of Flink: {checkpoints}. CPU: user and system time of "
        "all processes of an engine. Memory: the most that they had resident, in MiB. State: the bytes of the "
        "checkpoint at the end. [How to run it again](../../docs/nexmark.md)."
    )


def figures(one: Measured) -> list[str]:
    """The cells of an engine's query."""
    if not one.turns:
        return ["failed" if one.lost else "", "", "", ""]
    return [
        f"{one.median('seconds'):.2f}",
        f"{one.median('cpu_s'):.2f}",
        f"{one.median('peak_bytes') / (1 << 20):,.0f}",
        f"{one.median('state_bytes') / (1 << 20):,.1f}",
    ]


def answers_text(measured: Mapping[Key, Measured], query: Query, names: Sequence[str]) -> str:
    """Say whether the answers are the same."""
    answers = {n: answer for n in names if (answer := measured[query.name, n].answer)}
    if len(answers) < 2:
        return "not compared"
    first = next(iter(answers.values()))
    others = [
        f"{ENGINES[n]} has {answer.rows:,} other rows"
        for n, answer in answers.items()
        if not answer.same(first)
    ]
    return "; ".join(others) or f"equal ({', '.join(answers)})"


def totals(
    measured: Mapping[Key, Measured], queries: Sequence[Query], names: Sequence[str]
) -> list[str]:
    """The sums of what all engines but Spark alone have run."""
    compared = [name for name in names if name != "spark"]
    common = [q.name for q in queries if all(measured[q.name, n].turns for n in compared)]
    if not common or not compared:
        return []
    lines = [f"Together, {len(common)} queries that all of these ran:", ""]
    for name in compared:
        seconds, cpu = (
            sum(measured[query, name].median(figure) for query in common)
            for figure in ("seconds", "cpu_s")
        )
        lines.append(f"- {ENGINES[name]}: {seconds:,.1f} s, {cpu:,.1f} s of CPU")
    return [*lines, ""]


def losses(measured: Mapping[Key, Measured]) -> list[str]:
    """Name the queries that an engine did not run, and why, and those of which it dropped rows."""
    lines = failed_lines({key: one.lost for key, one in measured.items()})
    lines += [
        f"- {query}, {ENGINES[name]}: {one.median('late'):,.0f} rows were dropped as late"
        for (query, name), one in measured.items()
        if one.turns and one.median("late")
    ]
    return ["Failed and left out, or with rows dropped:", "", *lines, ""] if lines else []


def as_json(measured: Mapping[Key, Measured], chosen: argparse.Namespace) -> str:
    """Every run."""
    return results_text(measured, recorded(chosen))


if __name__ == "__main__":
    sys.exit(main())
