"""The unit and the container file that `penstock init --service` writes: as the golden files, and right for systemd.

`UPDATE_CASES=1 pytest` of this file writes the golden files anew: review the difference.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.catalog.errors import ConfigError
from penstock.sql.cli import service
from penstock.sql.cli.commands.app import app
from penstock.sql.cli.service import image_name, quoted, service_texts, unquoted
from tests.sql.cli.command_runner import CommandRunner

GOLDEN = Path(__file__).with_name("service_files")
ODD = Path('/srv/my "shop" 100% $5')
RUNNER = CommandRunner()


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is where the golden files have it."""
    monkeypatch.setattr(service, "_program", lambda: Path("/opt/penstock/bin/penstock"))


@pytest.mark.parametrize("file", ["Shop.v2.service", "Dockerfile", "Dockerfile.dockerignore"])
def test_files_are_as_the_golden_ones(file: str) -> None:
    """For a project of an odd name in an odd folder."""
    text = service_texts(ODD, "Shop.v2")[ODD / "deploy" / file]
    if os.environ.get("UPDATE_CASES"):
        (GOLDEN / file).write_text(text, encoding="utf-8")

    assert text == (GOLDEN / file).read_text(encoding="utf-8")


def verified(unit: Path) -> subprocess.CompletedProcess[str]:
    """What systemd says of a unit."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze (Debian: systemd) is not here")
    return subprocess.run(
        [program, "verify", str(unit)], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["shop", 'a "b" 100% $HOME \\x', "it's"])
def test_systemd_reads_the_unit_as_it_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """No complaint, whatever the folder's name; of a unit with a broken quote there is one."""
    monkeypatch.setattr(service, "_program", lambda: Path("/bin/true"))
    project = tmp_path / folder
    (project / "deploy").mkdir(parents=True)
    texts = service_texts(project, "shop")
    unit = project / "deploy" / "shop.service"
    unit.write_text(texts[unit], encoding="utf-8")
    broken = project / "deploy" / "broken.service"
    broken.write_text(texts[unit].replace('/bin/true"', "/bin/true", 1), encoding="utf-8")

    right, wrong = verified(unit), verified(broken)

    # systemd before 254 does not know these two, which does no harm
    unknown = re.compile(
        r".*Unknown key (?:name )?'(?:RestartSteps|RestartMaxDelaySec)'.*, ignoring\.\n"
    )
    assert (right.returncode, right.stdout, unknown.sub("", right.stderr)) == (0, "", "")
    assert wrong.returncode != 0


def test_paths_are_quoted_as_systemd_unquotes_them() -> None:
    """Of a command `$` is doubled, of a list it is not; a value as a whole has no quotes."""
    assert quoted(ODD) == '"/srv/my \\"shop\\" 100%% $$5"'
    assert quoted(ODD, command=False) == '"/srv/my \\"shop\\" 100%% $5"'
    assert unquoted(ODD) == '/srv/my "shop" 100%% $5'


@pytest.mark.parametrize("name", ["two\nlines", "tab\tbed", "blank "])
def test_a_path_that_no_unit_can_have_is_refused(tmp_path: Path, name: str) -> None:
    """A line end would begin another setting."""
    with pytest.raises(ConfigError, match="cannot be written into a unit"):
        service_texts(tmp_path / name, "shop")


@pytest.mark.parametrize(
    ("name", "image"), [("shop", "shop"), ("Shop.v2", "shop.v2"), ("a__b--c", "a-b-c")]
)
def test_an_image_has_a_name_that_images_may_have(name: str, image: str) -> None:
    """Small letters, and single separators."""
    assert image_name(name) == image


def test_a_new_project_has_them_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the other files, and by the project's name."""
    monkeypatch.chdir(tmp_path)
    result = RUNNER.invoke(app, ["init", "shop", "--service"])

    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "shop" / "penstock.toml").exists()
    assert {path.name for path in (tmp_path / "shop" / "deploy").iterdir()} == {
        "shop.service",
        "Dockerfile",
        "Dockerfile.dockerignore",
    }


def test_a_project_that_is_there_gets_them_alone_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of the project is changed, and the second time nothing is written over."""
    monkeypatch.chdir(tmp_path)
    Path("penstock.toml").write_text("[variables]\n", encoding="utf-8")

    first = RUNNER.invoke(app, ["init", "--service", "--name", "shop"])
    second = RUNNER.invoke(app, ["init", "--service", "--name", "shop"])

    assert first.exit_code == 0, first.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deploy", "penstock.toml"]
    assert second.exit_code == 2
    assert "would overwrite" in second.stderr
    assert "remove or rename them" in second.stderr
