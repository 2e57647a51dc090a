"""Clients and forks: Spark's Python daemon forks every worker, librdkafka's threads stay behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


def run(script: str) -> str:
    """What a script prints, in a process of its own that may take ten seconds."""
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout


@pytest.mark.slow
def test_importing_the_source_starts_no_thread() -> None:
    """A daemon that has loaded everything can still be forked."""
    printed = run(
        "import glob, importlib, pkgutil, penstock.connector.kafka as package\n"
        "for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    if not found.name.endswith('.parent_watchdog'):\n"
        "        importlib.import_module(found.name)\n"
        "print([open(name).read() for name in glob.glob('/proc/self/task/*/comm') if 'rdk' in open(name).read()])"
    )

    assert printed.strip() == "[]"


def test_a_child_neither_uses_nor_frees_its_parents_clients() -> None:
    """It begins with an empty pool and ends at once, also when it frees everything it has."""
    printed = run(
        "import gc, os, sys\n"
        "from penstock.connector.kafka.client.admin import KafkaAdmin\n"
        "from penstock.connector.kafka.client.consumer import KafkaConsumer\n"
        "from penstock.connector.kafka.client.connection import Connection, Start\n"
        "from penstock.connector.kafka.client.consumer import CONSUMERS\n"
        "settings = {'bootstrap.servers': '127.0.0.1:1', 'group.id': 'g'}\n"
        "connection = Connection.of(settings)\n"
        "CONSUMERS.give_back(CONSUMERS.lend(connection))\n"
        "admin, consumer = KafkaAdmin(Connection.of({'bootstrap.servers': '127.0.0.1:1'})), KafkaConsumer(connection)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    print('resting', len(CONSUMERS._resting), flush=True)\n"
        "    del admin, consumer\n"
        "    gc.collect()\n"
        "    sys.exit(7)\n"
        "print('ended', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print('parent', len(CONSUMERS._resting))"
    )

    assert printed.splitlines() == ["resting 0", "ended 7", "parent 1"]
