"""What the processes know of their pipelines' splits and batches: asked of the status page that each of them serves.

Each listens at this machine alone, and asks for one token of the supervisor's, which it reads from a file. Called by
the supervisor's own page (`overview.py`), once for each look at a pipeline.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from penstock.sql.held_folder import hold_folder
from penstock.sql.ui.access import TOKEN_BYTES
from penstock.sql.ui.documents.fields import VERSION_PATH, Document

if TYPE_CHECKING:
    from penstock.sql.processes.supervisor import ProcessView


log = logging.getLogger(__name__)

ANSWER_S = 1.0
"""How long a process may take to answer: it is this machine, and whoever looks at the page waits for it."""

MOST_BYTES = 64_000_000
"""Of an answer that are read."""

FOLDER = "penstock-pages-"
"""Begins the names of folders with a supervisor's token."""

FIELDS = ("tables", "batches_recent", "operators", "sinks", "errors")
"""What the page of a process has beside its reports."""

_DIRECT = build_opener(ProxyHandler({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageToken:
    """The token of the pages of all processes. `file` is what their command lines name."""

    text: str
    file: Path


@contextmanager
def page_token() -> Iterator[PageToken]:
    """Make a token for the processes of a supervisor, in a file of this user's, which is there while the block runs.

    Those of supervisors that were killed are removed.
    """
    folder = hold_folder(FOLDER)
    try:
        file = folder.path / "token"
        file.touch(mode=0o600)
        text = secrets.token_urlsafe(TOKEN_BYTES)
        file.write_text(text, encoding="ascii")
        yield PageToken(text=text, file=file)
    finally:
        folder.remove()


Fetch = Callable[[str, str], str]
"""Fetches a URL with a token. Raises OSError and ValueError."""


def fetch_page(url: str, token: str) -> str:
    """Fetch a document of a process. Raises OSError and ValueError."""
    request = Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310  of our own process
    with _DIRECT.open(request, timeout=ANSWER_S) as answer:
        return str(answer.read(MOST_BYTES).decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePages:
    """Asks the processes for what they know of a pipeline."""

    token: str
    fetch: Fetch = fetch_page

    def pipeline(self, process: ProcessView, name: str) -> Document:
        """Return splits, batches and operators of a pipeline; nothing of a process that does not answer."""
        if process.page_url is None or process.pid is None:
            return {}
        url = f"{process.page_url.rstrip('/')}{VERSION_PATH}/pipelines/{quote(name)}"
        try:
            found: Any = json.loads(self.fetch(url, self.token))
        except (OSError, ValueError) as error:
            log.debug("no page of %s: %s", process.name, error)
            return {}
        # before its first batch a process knows less than the checkpoint tells
        return {field: found[field] for field in FIELDS if found.get(field)}
