"""A catalog that an earlier Penstock and this one use at the same time, each installed by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.migrations import HEAD
from penstock.catalog.store.sql_catalog import SqlCatalog
from tests.catalog.conftest import Store
from tests.catalog.examples import table
from tests.earlier_version import environment, install

BEFORE = "548f484"
"""The last commit before versions of the store and of its readers were told apart."""

RUNNER = """
import json, sys
import penstock
from penstock.catalog.lease import this_process
from penstock.catalog.store import SqlCatalog

catalog = SqlCatalog(sys.argv[1])
lease = catalog.acquire_lease("job/t", this_process())
for line in sys.stdin:
    try:
        catalog.renew(lease)
        told = {"tables": [table.name for table in catalog.tables()], "stop": catalog.is_asked_to_stop(lease)}
    except Exception as error:
        told = {"error": str(error)}
    print(json.dumps(told | {"from": penstock.__file__}), flush=True)
catalog.release(lease)
"""

WRITER = """
import sys
from penstock.catalog.lease import this_process
from penstock.catalog.store import SqlCatalog
from penstock.catalog.identifier import Identifier

catalog = SqlCatalog(sys.argv[1])
name = Identifier(catalog="default_catalog", database="default_database", name="orders")
catalog.drop(name, kind="table")
catalog.release(catalog.acquire_lease("job/other", this_process()))
"""


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The earlier Penstock."""
    return install(BEFORE, tmp_path_factory.mktemp("earlier"))


class Runner:
    """A process of the earlier Penstock that holds a lease."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def heartbeat(self) -> dict[str, Any]:
        """Have it renew its lease and look at the catalog."""
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        asked.write("\n")
        asked.flush()
        answer: dict[str, Any] = json.loads(told.readline())
        return answer


@contextmanager
def running(earlier: Path, store: Store, folder: Path) -> Iterator[Runner]:
    """Run it until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER, store.url],
        env=environment(earlier),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Runner(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        status = process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
    assert status == 0


@pytest.mark.slow
def test_a_runner_of_the_version_before_goes_on_through_an_upgrade(
    store: Store, earlier: Path, tmp_path: Path
) -> None:
    """It renews its lease, sees what is written, and is asked to stop, before and after."""
    with running(earlier, store, tmp_path) as runner:
        first = runner.heartbeat()
        catalog = store.open()
        (claim,) = catalog.leases.claims()
        before = catalog.version()
        catalog.create(table("orders"))
        written = runner.heartbeat()
        catalog.upgrade()
        catalog.create(table("more"))
        upgraded = runner.heartbeat()
        asked = catalog.leases.request_stop("job/t")
        last = runner.heartbeat()

    assert str(earlier) in first["from"]
    assert (before, catalog.version()) == (4, HEAD)
    assert claim.lease.pipeline == "job/t"
    assert (first["tables"], written["tables"]) == ([], ["orders"])
    assert upgraded["tables"] == last["tables"] == ["more", "orders"]
    assert asked is not None
    assert (upgraded["stop"], last["stop"]) == (False, True)
    assert catalog.leases.claims() == []
    catalog.close()


@pytest.mark.slow
def test_the_version_before_writes_to_an_upgraded_catalog(
    store: Store, earlier: Path, tmp_path: Path
) -> None:
    """Definitions, history and leases; what it does not know of stays."""
    catalog = SqlCatalog(store.url)
    catalog.create(table("orders"))
    done = subprocess.run(
        [sys.executable, "-c", WRITER, store.url],
        env=environment(earlier),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.stderr == ""
    assert catalog.version() == HEAD
    assert catalog.tables() == []
    assert catalog.history()[0].author.process != os.getpid()
    assert catalog.leases.claims() == []
    catalog.close()
