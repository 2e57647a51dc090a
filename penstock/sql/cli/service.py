"""The files of `penstock init --service`: a systemd unit, and what a container is built from, for one project.

Their texts are in `cli/service_template`. Names and paths are quoted as systemd reads them: a path may have blanks,
quotes, `%` and `$`.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from penstock.catalog.errors import ConfigError

_TEMPLATE = "penstock.sql.cli"
FOLDER = "deploy"
"""The folder of the project that they are written to."""

_FILES = (
    ("penstock.service", "{name}.service"),
    ("Dockerfile", "Dockerfile"),
    ("Dockerfile.dockerignore", "Dockerfile.dockerignore"),
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def service_texts(folder: Path, name: str) -> dict[Path, str]:
    """Return the files by their paths. Raises ConfigError for a path that no unit can have."""
    from importlib.resources import files

    project = folder.resolve()
    marks = {
        "@NAME@": name,
        "@IMAGE@": image_name(name),
        "@PENSTOCK@": quoted(_program()),
        "@PROJECT@": quoted(project),
        "@WORKING_DIRECTORY@": unquoted(project),
        "@READ_WRITE_PATH@": quoted(project, command=False),
    }
    texts: dict[Path, str] = {}
    for source, target in _FILES:
        text = files(_TEMPLATE).joinpath("service_template", source).read_text(encoding="utf-8")
        texts[folder / FOLDER / target.format(name=name)] = _filled_in(text, marks)
    return texts


def quoted(path: Path, *, command: bool = True) -> str:
    """Quote a path as an item of a list in a unit; of a command, `$` is doubled, too. Raises ConfigError."""
    text = unquoted(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text.replace("$", "$$") if command else text}"'


def unquoted(path: Path) -> str:
    """Write a path as a whole value of a unit, where quotes are part of it. Raises ConfigError."""
    text = str(path)
    if _CONTROL.search(text) or text != text.strip():
        raise ConfigError(
            f"the path {text!r} cannot be written into a unit of systemd",
            hint="rename the folder: no line ends, tabs or other control characters, no blanks at its ends",
        )
    return text.replace("%", "%%")


def image_name(name: str) -> str:
    """Return a project's name as one that images and volumes may have."""
    return re.sub(r"[._-]{2,}", "-", name.lower()).strip("._-")


def _program() -> Path:
    """Return the `penstock` of this installation: a unit has no PATH of a user."""
    beside = Path(sys.executable).with_name("penstock")
    found = beside if beside.exists() else shutil.which("penstock")
    if found is None:
        raise ConfigError(
            "there is no command `penstock` in this installation",
            hint="install it into an environment (pip install), and run that one's penstock",
        )
    return Path(found).absolute()


def _filled_in(text: str, marks: dict[str, str]) -> str:
    """Replace all marks at once: what is put in for one is not looked at for another."""
    return re.sub("|".join(map(re.escape, marks)), lambda found: marks[found[0]], text)
