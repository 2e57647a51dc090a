"""Write a software bill of materials, CycloneDX 1.5 as JSON: `python -m tests.sbom FILE` (`make sbom`).

Components are the packages of `requirements.lock` (`scope` says whether Penstock runs with them), the package in
`native` and the crates in it, the jars that Penstock fetches (`*.jars` files), and those inside the installed pyspark.
The text is the same on every machine: it
has no time, no host name and no path.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import sys
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from penstock.connector.jvm.jars import Jar, read_jar_set

ROOT = Path(__file__).resolve().parents[1]
PROJECT = "penstock"

Component = dict[str, Any]

_PINNED = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\]+))?"
)
_VIA = re.compile(r"^ +#(?: via)? +(?P<name>[A-Za-z0-9._-]+)")


def bill(root: Path = ROOT) -> dict[str, Any]:
    """Return the bill of materials of a checkout."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (root / "requirements.lock").read_text(encoding="utf-8")
    fetched = [
        jar for file in sorted((root / PROJECT).rglob("*.jars")) for jar in read_jar_set(file).jars
    ]
    components = [*packages(lock, project["dependencies"])]
    components += native_components(root / "native")
    components += [jar_component(jar, "fetched by Penstock") for jar in fetched]
    components += installed_jars("pyspark")
    components.sort(key=lambda component: component["bom-ref"])
    own = {
        "type": "application",
        "bom-ref": f"pkg:pypi/{project['name']}@{project['version']}",
        "name": project["name"],
        "version": project["version"],
        "purl": f"pkg:pypi/{project['name']}@{project['version']}",
        "licenses": [{"license": {"id": project["license"]}}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, json.dumps(components, sort_keys=True))}",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
    }


def packages(lock: str, dependencies: Iterable[str]) -> Iterator[Component]:
    """Return the packages of a lock file; those that `dependencies` bring in are required."""
    found: list[Component] = []  # one package may be there in several versions, by their markers
    readers: dict[str, set[str]] = defaultdict(set)
    name = ""
    for line in lock.splitlines():
        if pinned := _PINNED.match(line):
            name = normalized(pinned["name"])
            purl = f"pkg:pypi/{name}@{pinned['version']}"
            component: Component = {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": pinned["version"],
                "purl": purl,
                "hashes": [],
            }
            found.append(component)
            if pinned["marker"]:
                marker = {"name": "penstock:marker", "value": pinned["marker"].strip()}
                component["properties"] = [marker]
        elif (digest := line.strip().removesuffix("\\").strip()).startswith("--hash=sha256:"):
            found[-1]["hashes"].append(sha256(digest.removeprefix("--hash=sha256:")))
        elif name and (via := _VIA.match(line)):
            readers[normalized(via["name"])].add(name)
    pending = [
        normalized(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]) for text in dependencies
    ]
    required: set[str] = set()
    while pending:
        needed = pending.pop()
        if needed not in required:
            required.add(needed)
            pending += readers[needed]
    for one in found:
        yield {**one, "scope": "required" if one["name"] in required else "excluded"}


def native_components(folder: Path) -> Iterator[Component]:
    """Return the optional package that `make native` builds, and the crates that are compiled into it."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = tomllib.loads((folder / "Cargo.lock").read_text(encoding="utf-8"))
    for crate in lock["package"]:
        own = crate["name"] == project["name"]
        purl = f"pkg:{'pypi' if own else 'cargo'}/{crate['name']}@{crate['version']}"
        component: Component = {
            "type": "library",
            "bom-ref": purl,
            "name": crate["name"],
            "version": crate["version"],
            "purl": purl,
            "scope": "optional",
        }
        if own:
            yield component | {"licenses": [{"license": {"id": project["license"]}}]}
        else:
            yield component | {"hashes": [sha256(crate["checksum"])]}


def jar_component(jar: Jar, origin: str) -> Component:
    """Return a pinned jar."""
    purl = f"pkg:maven/{jar.group}/{jar.artifact}@{jar.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "group": jar.group,
        "name": jar.artifact,
        "version": jar.version,
        "purl": purl,
        "scope": "required",
        "hashes": [sha256(jar.sha256)],
        "properties": [{"name": "penstock:origin", "value": origin}],
    }


def installed_jars(package: str) -> Iterator[Component]:
    """Return the jars inside an installed package; their coordinates are in the jars, where Maven wrote them."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is installed"
    assert spec.origin is not None, f"{package} is a package"
    for file in sorted((Path(spec.origin).parent / "jars").glob("*.jar")):
        content = file.read_bytes()
        found = coordinates(file)
        group, artifact, version = found or ("", *split_name(file.stem))
        purl = (
            f"pkg:maven/{group}/{artifact}@{version}"
            if group
            else f"pkg:generic/{artifact}@{version}"
        )
        component = {
            "type": "library",
            "bom-ref": f"{purl}?in={package}",
            "name": artifact,
            "version": version,
            "purl": purl,
            "scope": "required",
            "hashes": [sha256(hashlib.sha256(content).hexdigest())],
            "properties": [{"name": "penstock:origin", "value": f"in the package {package}"}],
        }
        yield {**component, "group": group} if group else component


def coordinates(file: Path) -> tuple[str, str, str] | None:
    """Return group, artifact and version of a jar by its pom.properties; None where it has none of its own name."""
    with zipfile.ZipFile(file) as jar:
        for name in jar.namelist():
            if not (name.startswith("META-INF/maven/") and name.endswith("/pom.properties")):
                continue
            lines = jar.read(name).decode("latin-1").splitlines()
            values = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
            with suppress(KeyError):
                group, artifact, version = (
                    values[k].strip() for k in ("groupId", "artifactId", "version")
                )
                if file.stem in (f"{artifact}-{version}", artifact):
                    return group, artifact, version
    return None


def split_name(stem: str) -> tuple[str, str]:
    """Split the name of a jar into artifact and version."""
    found = re.fullmatch(r"(.+?)-(\d.*)", stem)
    return (found[1], found[2]) if found is not None else (stem, "unknown")


def normalized(name: str) -> str:
    """Return the name of a package as the registry compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def sha256(digest: str) -> dict[str, str]:
    """Return a hash as CycloneDX has it."""
    return {"alg": "SHA-256", "content": digest}


if __name__ == "__main__":
    made = bill()
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    sys.stderr.write(f"{target}: {len(made['components'])} components\n")
