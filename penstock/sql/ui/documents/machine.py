"""Documents of the settings in force, and of what `penstock doctor` finds on the machine of the page's process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.catalog.masking import without_secrets
from penstock.catalog.options.redaction import redact
from penstock.sql.clock import Clock, SystemClock
from penstock.sql.compatibility.options_page import default_text
from penstock.sql.runner.doctor import Examined, Finding, Level, examine
from penstock.sql.settings import RESTART_SETTINGS, SETTINGS
from penstock.sql.ui.documents.background import BackgroundLook
from penstock.sql.ui.documents.fields import Document, known, time_text

if TYPE_CHECKING:
    from penstock.sql.script.project import Project

FRESH_MS = 300_000
"""For how long findings are shown before the next request looks again: brokers are asked, and Java is started."""


def settings_document(project: Project, catalog: str) -> Document:
    """Describe the settings that the project's files begin with, and those of Spark; values of secrets are left out.

    `catalog` is the URL of the catalog.
    """
    own = redact(project.settings)
    declared = {option.key: option for option in (*SETTINGS, *RESTART_SETTINGS)}
    found = [
        known(
            key=key,
            value=without_secrets(value),
            origin=_origin(project),
            meaning=declared[key].doc if key in declared else None,
        )
        for key, value in sorted(own.items())
    ]
    found += [
        known(key=key, value=text, origin="default", meaning=option.doc)
        for key, option in sorted(declared.items())
        if key not in own and (text := default_text(option))
    ]
    spark = redact({key: str(value) for key, value in project.spark_conf.items()})
    return known(
        project=str(project.root),
        target=project.target,
        catalog=without_secrets(_shown(catalog)),
        master=project.master,
        settings=found,
        spark=[
            {"key": key, "value": without_secrets(value), "origin": _origin(project)}
            for key, value in sorted(spark.items())
        ],
    )


def _origin(project: Project) -> str:
    file = "penstock.toml" if project.file is None else project.file.name
    return file if project.target is None else f"{file}, target {project.target}"


def _shown(url: str) -> str:
    from penstock.catalog.store.database import shown_url

    return shown_url(url)


@dataclass(slots=True, kw_only=True)
class Examination:
    """What the doctor found, looked for in the background. May be used on any thread."""

    clock: Clock = field(default_factory=SystemClock)
    _looks: BackgroundLook[tuple[Finding, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self._looks = BackgroundLook(name="penstock doctor", fresh_ms=FRESH_MS, clock=self.clock)

    def document(self, look: Callable[[], Iterable[Finding]]) -> Document:
        """Describe the last findings; begins to `look` where there are none, or old ones."""
        latest = self._looks.latest(lambda: _examined(look))
        return known(
            examined=time_text(latest.at_ms),
            running=latest.running,
            findings=[_finding(each) for each in latest.found or ()],
        )


def _examined(look: Callable[[], Iterable[Finding]]) -> tuple[Finding, ...]:
    try:
        return tuple(look())
    except Exception as error:  # noqa: BLE001  the page says it
        text = f"{type(error).__name__}: {error}"
        return (Finding(subject="doctor", level=Level.FAILURE, text=text),)


def findings(project: Project, catalog_url: str | None) -> Iterable[Finding]:
    """Look at the machine as `penstock doctor` does. May take seconds."""
    from penstock.catalog.store.sql_catalog import SqlCatalog

    def catalog() -> SqlCatalog:
        return SqlCatalog(
            catalog_url or project.default_catalog_url, secret_key_file=project.secret_key_file
        )

    return examine(Examined(project=lambda: project, catalog=catalog, catalog_url=catalog_url))


def _finding(found: Finding) -> Document:
    return known(
        check=found.subject,
        level=str(found.level),
        text=without_secrets(found.text),
        hint=None if found.hint is None else without_secrets(found.hint),
    )
