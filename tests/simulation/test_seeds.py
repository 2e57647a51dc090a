"""Thousands of seeds of both worlds, and what they prove: no rule broken, no rare path missed, each seed repeatable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.__main__ import main
from tests.simulation.scheduler import Run, SimulationError, Violation
from tests.simulation.seeds import PROBES, WORLDS, run_in_processes, run_seed, run_seeds

ROOT = Path(__file__).resolve().parents[2]
FIRST_SEED = 1_000_000
SEEDS = int(os.environ.get("PENSTOCK_SIMULATION_SEEDS", "1000"))
JOBS = min(4, os.cpu_count() or 1)

in_each_world = pytest.mark.parametrize("world", sorted(WORLDS))


@in_each_world
@pytest.mark.parametrize("seeds", [4, pytest.param(25, marks=pytest.mark.simulation)])
def test_a_handful_of_seeds_keeps_every_rule(world: str, seeds: int) -> None:
    """What fails here fails in a few seconds; the thousands below look for what is rare."""
    probes = run_seeds(world, range(seeds))

    assert probes


@pytest.mark.nightly
@pytest.mark.simulation
@in_each_world
def test_thousands_of_seeds_keep_every_rule_and_reach_every_rare_path(world: str) -> None:
    """PENSTOCK_SIMULATION_SEEDS says how many; a seed that fails is named, with what happened last."""
    probes = run_in_processes(world, range(FIRST_SEED, FIRST_SEED + SEEDS), JOBS)

    assert sorted(PROBES[world] - probes.keys()) == []


@in_each_world
def test_a_seed_replays_exactly(world: str) -> None:
    """The same seed gives the same trace, line by line, and another seed another one."""
    first, again, other = (run_seed(world, seed, whole_trace=True) for seed in (7, 7, 8))

    assert first.trace == again.trace
    assert first.trace != other.trace


@pytest.mark.nightly
@pytest.mark.simulation
@in_each_world
def test_a_seed_replays_exactly_in_another_process(world: str) -> None:
    """Nothing of a run hangs on the order of a set of names, which differs from process to process."""
    command = [
        sys.executable,
        "-m",
        "tests.simulation",
        "--world",
        world,
        "--seed",
        "11",
        "--trace",
    ]
    first, second = (
        subprocess.run(
            command,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    )

    assert first == second
    assert len(first.splitlines()) > 10


@in_each_world
def test_a_failing_seed_is_named_with_what_happened_last(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken rule stops the run with world, seed, step, rule and the end of the trace."""

    def broken(run: Run) -> None:
        run.note("something", 42)
        raise Violation("the rule")

    monkeypatch.setitem(WORLDS, world, broken)

    with pytest.raises(
        SimulationError, match=rf"{world} world, seed 5, .*: the rule\n.*something 42"
    ):
        run_seed(world, 5)


def test_the_command_replays_one_seed_with_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """`--seed 3 --trace` prints all that happened, and that nothing was broken."""
    status = main(["--world", "local", "--seed", "3", "--trace"])

    assert status == 0
    printed = capsys.readouterr().out
    assert "checkpoint job-0" in printed
    assert printed.splitlines()[-1].startswith("local world, seed 3: all rules hold")


def test_the_command_fails_with_the_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit status 1, and the seed to replay."""

    def broken(_run: Run) -> None:
        raise Violation("the rule")

    monkeypatch.setitem(WORLDS, "local", broken)
    status = main(["--world", "local", "--seed", "9"])

    assert status == 1
    assert "local world, seed 9" in capsys.readouterr().err
