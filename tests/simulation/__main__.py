"""Runs as many seeds as wanted, or replays one: `python -m tests.simulation --help`."""

from __future__ import annotations

import argparse
import json
import os
import sys

from tests.simulation.scheduler import SimulationError
from tests.simulation.seeds import WORLDS, run_in_processes, run_seed


def main(arguments: list[str] | None = None) -> int:
    """Give the exit status: 1 if a seed failed, which is printed with its trace."""
    asked = _parser().parse_args(arguments)
    worlds = [asked.world] if asked.world else sorted(WORLDS)
    if asked.seed is not None:
        return max(_replay(world, asked.seed, trace=asked.trace) for world in worlds)
    seeds = range(asked.first, asked.first + asked.seeds)
    try:
        probes = {world: run_in_processes(world, seeds, asked.jobs) for world in worlds}
    except SimulationError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(probes, indent=2, sort_keys=True))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many, in each world")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first of them")
    parser.add_argument("--world", choices=sorted(WORLDS), help="only this one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, help="replay this one")
    parser.add_argument("--trace", action="store_true", help="with --seed: print all that happened")
    return parser


def _replay(world: str, seed: int, *, trace: bool) -> int:
    try:
        run = run_seed(world, seed, whole_trace=trace)
    except SimulationError as error:
        print("\n".join(error.lines) if trace else "", error, sep="\n", file=sys.stderr)
        return 1
    if trace:
        print("\n".join(run.trace))
    print(f"{world} world, seed {seed}: all rules hold after {run.step} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
