"""What processes know of their pipelines is asked of their own pages, with a token that no command line has."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.processes.live_pages import LivePages, fetch_page, page_token
from penstock.sql.processes.process_end import ProcessState
from penstock.sql.processes.supervisor import ProcessView
from penstock.sql.ui.access import page_access
from penstock.sql.ui.application import StatusView
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.server import serving_pages
from tests.sql.metrics.metered import SPLITS, job, read_batch, source_of


def process(page_url: str | None) -> ProcessView:
    """A process that runs, and serves its page there."""
    return ProcessView(
        name="sql/totals.sql",
        state=ProcessState.RUNNING,
        pipelines=("shop/totals",),
        pid=12,
        page_url=page_url,
    )


def test_splits_and_batches_are_those_that_the_process_serves(tmp_path: Path) -> None:
    """Of a real page over HTTP, which asks for the token; another one is refused, and nothing is known then."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{tmp_path}/catalog.db"))
    stored = StoredPipelines(namespace=namespace, project=tmp_path)
    running = job(read_batch(7, source_of(*SPLITS)))
    view = StatusView(jobs=lambda: [running], stored=stored)
    with page_token() as token:
        mode = token.file.stat().st_mode & 0o777
        access = page_access(token_file=token.file)
        with serving_pages(view, access, port=0) as url:
            found = LivePages(token=token.text).pipeline(process(url), "shop/totals")
            refused = LivePages(token="another").pipeline(process(url), "shop/totals")
            with pytest.raises(OSError, match="401"):
                fetch_page(f"{url}api/v1/pipelines", "another")

    assert mode == 0o600
    assert not token.file.exists()
    assert {split["id"] for split in found["tables"][0]["splits"]} == {
        "orders-0",
        "orders-1",
        "orders-2",
    }
    assert [batch["id"] for batch in found["batches_recent"]] == [7]
    assert "status" not in found
    assert refused == {}


def test_a_process_that_does_not_answer_is_not_waited_for() -> None:
    """Nor one whose page is not known yet, which is not asked, or one that answers no JSON; what is empty is not known."""
    asked: list[str] = []

    def fetch(url: str, _: str) -> str:
        asked.append(url)
        raise TimeoutError("it is stopped")

    pages = LivePages(token="t", fetch=fetch)

    assert pages.pipeline(process("http://127.0.0.1:9/"), "shop/a b?c") == {}
    assert pages.pipeline(process(None), "shop/totals") == {}
    assert LivePages(token="t", fetch=lambda *_: '{"tables": [], "sinks": [1]}').pipeline(
        process("http://x/"), "a"
    ) == {"sinks": [1]}
    assert LivePages(token="t", fetch=lambda *_: "<html>").pipeline(process("http://x/"), "a") == {}
    assert asked == ["http://127.0.0.1:9/api/v1/pipelines/shop/a%20b%3Fc"]


KILLED = """
import os, signal
from penstock.sql.processes.live_pages import page_token
with page_token() as token:
    print(token.file, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_token_of_a_killed_supervisor_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that runs keeps its own, and what is no folder of a supervisor stays."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    other = tmp_path / "penstock-pages-of-somebody"
    other.write_text("no folder")
    with page_token() as running:
        died = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, check=False)
        left = Path(died.stdout.decode().strip())
        there = left.exists()
        with page_token():
            pass
        assert there
        assert not left.parent.exists()
        assert running.file.exists()

    assert list(tmp_path.iterdir()) == [other]
