"""The demo as a person starts it, on fewer orders: its claim holds, and it leaves nothing running."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.connector.kafka.broker.record import running_broker

ROOT = Path(__file__).resolve().parents[1]

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def start_demo(folder: Path) -> subprocess.Popen[str]:
    """The demo on 40,000 orders in ten batches. What it starts shares its output: that ends when all have ended."""
    command = [sys.executable, "-m", "examples.demo", "--folder", str(folder)]
    command += ["--orders", "40000", "--batch", "4000"]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.nightly
def test_the_demo_keeps_every_row_and_spark_alone_does_not(tmp_path: Path) -> None:
    """Exit status 0 is the demo's own check that nothing was lost; Spark's line shows what skew costs."""
    with start_demo(tmp_path / "demo") as demo:
        output, _ = demo.communicate()
    rows = {
        name: [int(cell.replace(",", "")) for cell in re.findall(r"[\d,]+", line.split(name)[1])]
        for line in output.splitlines()
        for name in ("Penstock ", "Spark's own watermark ")
        if name in line and "│" in line
    }

    assert demo.returncode == 0, output
    assert rows["Penstock "] == [40_000, 40_000, 0]
    read, kept, dropped = rows["Spark's own watermark "]
    assert (read, kept + dropped) == (40_000, 40_000)
    assert 0 < kept < 30_000
    assert (tmp_path / "demo" / "skew.png").stat().st_size > 10_000
    assert not (tmp_path / "demo" / "kafka").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM], ids=lambda way: way.name)
def test_an_interrupted_demo_leaves_nothing_running(tmp_path: Path, way: signal.Signals) -> None:
    """Stopped while the pipeline runs: broker, pipeline and Spark end before the demo's output does."""
    with start_demo(tmp_path / "demo") as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "penstock run" in line:
                demo.send_signal(way)
                break
        rest = demo.stdout.read()

    assert demo.returncode == 130, rest
    assert running_broker(tmp_path / "demo" / "kafka") is None
