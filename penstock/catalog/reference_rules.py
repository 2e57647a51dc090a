"""Which variables and files references may name: what the operator's environment says, and the projects opened here.

`[secrets] file-roots` and `env-prefix` of a project bind every session of the process; the variables
PENSTOCK_SECRET_FILE_ROOTS and PENSTOCK_SECRET_ENV_PREFIX bind whatever a project says, so that a change to a project's
file cannot widen what its operator allows. All rules hold at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.errors import OptionError
from penstock.catalog.secret import KEY_VARIABLES

__all__ = [
    "ENV_PREFIX_VARIABLE",
    "FILE_ROOTS_VARIABLE",
    "ReferenceRules",
    "add_rules",
    "check_variable",
    "rules_in_force",
    "visible_variables",
]

FILE_ROOTS_VARIABLE = "PENSTOCK_SECRET_FILE_ROOTS"
"""Folders, separated as in PATH."""

ENV_PREFIX_VARIABLE = "PENSTOCK_SECRET_ENV_PREFIX"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRules:
    """What references may name. None: no limit."""

    file_roots: tuple[Path, ...] | None = None
    env_prefix: str | None = None

    @property
    def limits(self) -> bool:
        """Tell whether there is a limit at all."""
        return self.file_roots is not None or self.env_prefix is not None


_of_projects: dict[ReferenceRules, None] = {}


def add_rules(rules: ReferenceRules) -> None:
    """Let the rules of a project hold in this process from now on."""
    if rules.limits:
        _of_projects[rules] = None


def rules_in_force() -> tuple[ReferenceRules, ...]:
    """Give the rules that hold here: the environment's, then those of projects."""
    roots = os.environ.get(FILE_ROOTS_VARIABLE)
    named = ReferenceRules(
        file_roots=None
        if roots is None
        else tuple(Path(each) for each in roots.split(os.pathsep) if each),
        env_prefix=os.environ.get(ENV_PREFIX_VARIABLE),
    )
    return (*([named] if named.limits else ()), *_of_projects)


def check_variable(name: str) -> None:
    """Check that a reference may name a variable. Raises OptionError."""
    for rules in rules_in_force():
        if rules.env_prefix is not None and not name.startswith(rules.env_prefix):
            raise OptionError(
                f"${{env:{name}}}: references may name variables that begin with {rules.env_prefix} alone",
                hint=f"the prefix comes from [secrets] env-prefix of penstock.toml or from {ENV_PREFIX_VARIABLE}",
            )


def visible_variables(environment: Mapping[str, str], rules: ReferenceRules) -> dict[str, str]:
    """Give the variables that templates may read: none that is a key, and those that all rules allow."""
    prefixes = [
        each.env_prefix for each in (*rules_in_force(), rules) if each.env_prefix is not None
    ]
    return {
        name: value
        for name, value in environment.items()
        if name not in KEY_VARIABLES and all(map(name.startswith, prefixes))
    }
