"""Builds the crate with cargo, and puts its library into the package: one wheel for every Python of a platform."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
LIBRARY = "libpenstock_native.so"


class BuildWithCargo(build_py):
    """Builds the library beside the modules."""

    def run(self) -> None:
        """Run cargo, which needs no crate besides this one, and so no network."""
        if shutil.which("cargo") is None:
            raise SystemExit(
                "error: cargo is not there; install Rust 1.81 or newer from https://rustup.rs"
            )
        subprocess.run(
            ["cargo", "build", "--release", "--locked", "--offline"], cwd=ROOT, check=True
        )
        super().run()
        target = Path(self.build_lib) / "penstock_native" / LIBRARY
        shutil.copyfile(ROOT / "target" / "release" / LIBRARY, target)


class WheelOfAnyPython(bdist_wheel):
    """A wheel with a library that does not know Python: the platform counts, its version does not."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags in the wheel's name."""
        _, _, platform = super().get_tag()
        return "py3", "none", platform


class PlatformDistribution(Distribution):
    """Makes setuptools name the platform."""

    def has_ext_modules(self) -> bool:
        """There is a compiled part, which setuptools does not build."""
        return True


COMMANDS: dict[str, Any] = {"build_py": BuildWithCargo, "bdist_wheel": WheelOfAnyPython}
setup(distclass=PlatformDistribution, cmdclass=COMMANDS)
