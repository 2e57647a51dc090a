"""The bill of materials names what is locked, fetched and bundled, and nothing of the machine that wrote it."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from tests.sbom import ROOT, bill, native_components, packages

LOCK = """\
duckdb==1.4.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via penstock (pyproject.toml)
py4j==0.10.9 ; sys_platform != 'win32' \\
    --hash=sha256:cc
    # via pyspark
pyspark==4.2.0 \\
    --hash=sha256:dd
    # via
    #   penstock (pyproject.toml)
    #   delta-spark
ruff==0.17.0 \\
    --hash=sha256:ee
    # via penstock (pyproject.toml)
"""


def test_packages_have_their_hashes_and_whether_they_are_required() -> None:
    """What only a developer installs is excluded; what a dependency brings in is required."""
    found = {c["name"]: c for c in packages(LOCK, ["duckdb>=1", "pyspark[connect]==4.2.0"])}

    assert {name: c["scope"] for name, c in found.items()} == {
        "duckdb": "required",
        "py4j": "required",
        "pyspark": "required",
        "ruff": "excluded",
    }
    assert found["duckdb"]["purl"] == "pkg:pypi/duckdb@1.4.0"
    assert [h["content"] for h in found["duckdb"]["hashes"]] == ["aa", "bb"]
    assert found["py4j"]["properties"][0]["value"] == "sys_platform != 'win32'"


def test_the_native_package_and_its_crates_are_named(tmp_path: Path) -> None:
    """A crate that it is built of has the hash of its lock file."""
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'penstock-native'\nlicense = 'Apache-2.0'\n"
    )
    (tmp_path / "Cargo.lock").write_text(
        "[[package]]\nname = 'memchr'\nversion = '2.7.0'\nchecksum = 'ab'\n"
        "[[package]]\nname = 'penstock-native'\nversion = '0.1.0'\n"
    )

    crate, own = native_components(tmp_path)

    assert crate["purl"] == "pkg:cargo/memchr@2.7.0"
    assert crate["hashes"][0]["content"] == "ab"
    assert own["purl"] == "pkg:pypi/penstock-native@0.1.0"
    assert own["scope"] == "optional"


@pytest.mark.slow
def test_the_bill_of_this_checkout_is_whole_and_the_same_everywhere() -> None:
    """Each pinned package and jar once; no host, no path, no time."""
    made = bill()
    refs = [component["bom-ref"] for component in made["components"]]
    pinned = re.findall(
        r"^[A-Za-z0-9._-]+(?:\[.*?\])?==", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    text = json.dumps(made)

    assert len(refs) == len(set(refs))
    # and the package that this checkout builds
    assert sum(ref.startswith("pkg:pypi/") for ref in refs) == len(pinned) + 1
    assert any(ref.startswith("pkg:maven/io.delta/delta-spark") for ref in refs)
    assert any(ref.startswith("pkg:maven/org.apache.hadoop/hadoop-client-api@") for ref in refs)
    own = [component["name"] for component in made["components"] if "hashes" not in component]
    assert own == ["penstock-native"]
    assert re.search(rf"(?<![\w.-]){re.escape(socket.gethostname())}(?![\w.-])", text) is None
    assert str(Path.home()) not in text
    assert "timestamp" not in made["metadata"]
    assert made == bill()
