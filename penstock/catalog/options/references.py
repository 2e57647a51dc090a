"""References in option values: `${secret:name}`, `${env:NAME}`, `${file:/path}`, `${file:/path:key}` (as in KIP-297).

A definition keeps the reference. The process that connects replaces it by the value (`reveal`), as late as possible.
`$${` is the escape of `${`. Before a definition travels to other processes, `sealed_text` writes the encrypted value
beside the name of a secret, so that they need the key and not the catalog.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never
from urllib.parse import quote, unquote

from penstock.catalog.errors import ConfigError, OptionError, UnknownObjectError, did_you_mean
from penstock.catalog.masking import keep_secret
from penstock.catalog.options.reference_rules import (
    check_no_key,
    check_variable,
    read_allowed_file,
    read_properties,
)
from penstock.catalog.secrets.crypto import KEY_VARIABLES, SealedSecret, decrypt

PROVIDERS = ("secret", "env", "file")
_SEALED = "sealed"
_EXAMPLES = "${secret:name}, ${env:NAME}, ${file:/path} or ${file:/path:key}"
_PART = re.compile(r"(?P<escaped>\$\$\{)|\$\{(?P<inside>[^}]*)(?P<end>\}?)")
_KNOWN = re.compile(rf"(?<!\$)\$\{{(?:{'|'.join((*PROVIDERS, _SEALED))}):")
_WHOLE = re.compile(rf"(?:\$\{{(?:{'|'.join((*PROVIDERS, _SEALED))}):[^}}]*\}})+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,254}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReference:
    """`${secret:name}`: what CREATE SECRET keeps in the catalog."""

    name: str

    def __str__(self) -> str:
        return f"${{secret:{self.name}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvReference:
    """`${env:NAME}`: a variable of the environment of the process that connects."""

    name: str

    def __str__(self) -> str:
        return f"${{env:{self.name}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReference:
    """`${file:/path}`: a file's text without the newline at its end; with a key, that line of a properties file."""

    path: str
    key: str | None = None

    def __str__(self) -> str:
        return f"${{file:{self.path}{'' if self.key is None else f':{self.key}'}}}"


Reference = SecretReference | EnvReference | FileReference | SealedSecret


def holds_reference(text: str) -> bool:
    """Return whether a text has a reference of a known kind in it, well formed or not."""
    return _KNOWN.search(text) is not None


def holds_only_references(text: str) -> bool:
    """Return whether a text is made of references alone, so that it shows nothing of their values."""
    return _WHOLE.fullmatch(text) is not None


def references_in(text: str) -> tuple[Reference, ...]:
    """Return the references in a text, in their order. Raises OptionError for one that is malformed."""
    return tuple(part for part in _parts(text) if not isinstance(part, str))


def check_references(text: str, *, what: str) -> None:
    """Check that the content of `${...}` is well formed; `what` names the option. Raises OptionError."""
    try:
        _parts(text)
    except OptionError as error:
        raise error.within(what) from None


def resolve_reference(reference: Reference) -> str:
    """Resolve a reference, in this process. Raises UnknownObjectError, ConfigError; OptionError for one that was not
    sealed, that would disclose a key of the secrets, or that the rules of the machine do not allow.
    """
    match reference:
        case SealedSecret():
            return decrypt(reference)
        case EnvReference(name=name):
            check_variable(name)
            value = os.environ.get(name)
            if value is None:
                raise _no_variable(name)
            check_no_key(value, what=str(reference))
            return value
        case FileReference():
            value = _from_file(reference)
            check_no_key(value, what=str(reference))
            return value
        case SecretReference(name=name):
            raise OptionError(
                f"the value of the secret '{name}' did not reach the process that connects",
                hint="read and write the table through a Penstock session, which hands it on",
            )
    assert_never(reference)


def reveal(text: str, *, secret: bool) -> str:
    """Replace references by their values; call it in the process that connects, where it connects.

    From then on the values are masked in all output of this process: those of secrets always, others where `secret`
    marks the option's value as never shown. Raises as `resolve_reference`.
    """
    if "${" not in text:
        return text
    found = []
    for part in _parts(text):
        if isinstance(part, str):
            found.append(part)
            continue
        value = resolve_reference(part)
        if secret or isinstance(part, SealedSecret):
            keep_secret(value)
        found.append(value)
    return "".join(found)


def sealed_text(text: str, seal: Callable[[str], SealedSecret]) -> str:
    """Write the encrypted value into each `${secret:name}`; `seal` returns it by name. Other text stays as it is."""

    def written(match: re.Match[str]) -> str:
        if match["escaped"] or not match["inside"].startswith("secret:"):
            return match[0]
        return _sealed_form(seal(match["inside"].partition(":")[2]))

    return _PART.sub(written, text)


def escaped_references(text: str) -> str:
    """Return a text in which references of known kinds are plain characters."""
    return _KNOWN.sub(lambda match: f"${match[0]}", text)


def shown_references(text: str) -> str:
    """Return a text for people: sealed secrets as the references that they were."""

    def written(match: re.Match[str]) -> str:
        inside = match["inside"]
        if match["escaped"] or not inside.startswith(f"{_SEALED}:"):
            return match[0]
        return f"${{secret:{inside.split(':')[1]}}}"

    return _PART.sub(written, text)


def _sealed_form(sealed: SealedSecret) -> str:
    file = "" if sealed.key_file is None else quote(sealed.key_file, safe="/")
    return f"${{{_SEALED}:{sealed.name}:{sealed.key_id}:{file}:{sealed.token}}}"


def _parts(text: str) -> list[str | Reference]:
    """Split a text into its parts. Raises OptionError."""
    parts: list[str | Reference] = []
    at = 0
    for match in _PART.finditer(text):
        parts.append(text[at : match.start()])
        parts.append("${" if match["escaped"] else _reference(match))
        at = match.end()
    return [*parts, text[at:]]


def _reference(match: re.Match[str]) -> Reference:
    provider, colon, rest = match["inside"].partition(":")
    if not match["end"] or not colon or not rest:
        # what stands there may be a password with these characters in it
        raise OptionError(
            "`${` begins a reference, and this one is not of the form ${kind:name}",
            hint=f"write {_EXAMPLES}; `$${{` stands for the characters themselves",
        )
    match provider:
        case "secret" if _NAME.fullmatch(rest):
            return SecretReference(name=rest)
        case "env" if _VARIABLE.fullmatch(rest):
            if rest in KEY_VARIABLES:
                raise OptionError(
                    f"${{env:{rest}}} is the key of the secrets itself, which no table may send anywhere"
                )
            return EnvReference(name=rest)
        case "file":
            return _file_reference(rest)
        case "sealed" if len(fields := rest.split(":")) == 4:
            name, key_id, file, token = fields
            return SealedSecret(
                name=name, key_id=key_id, key_file=unquote(file) or None, token=token
            )
        case "secret" | "env":
            raise OptionError(
                f"${{{provider}:...}} does not hold the name of a {'secret' if provider == 'secret' else 'variable'}",
                hint="names have letters, digits and _" + (", . and -" * (provider == "secret")),
            )
    near = did_you_mean(provider, PROVIDERS)
    # a word that is far from all of them may be a part of a password
    named = f"there are no references of the kind '{provider}'" if near else None
    raise OptionError(
        named or "`${` begins a reference, and this one is of no known kind",
        hint=f"{f'{near} ' if near else ''}write {_EXAMPLES}; `$${{` stands for the characters themselves",
    )


def _file_reference(rest: str) -> FileReference:
    path, _, key = rest.partition(":")
    if not Path(path).is_absolute():
        raise OptionError(
            f"${{file:{path}}} is a relative path, and the processes that connect work in other folders",
            hint="write an absolute path, ${file:/run/secrets/password}",
        )
    return FileReference(path=path, key=key or None)


def _no_variable(name: str) -> UnknownObjectError:
    near = did_you_mean(name, [other for other in os.environ if other not in KEY_VARIABLES])
    return UnknownObjectError(
        f"${{env:{name}}}: there is no environment variable {name} in the process that connects ({_here()})",
        hint=near
        or "set it before Spark starts: tasks have the environment that their worker began with",
    )


def _here() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _from_file(reference: FileReference) -> str:
    text = _text_of(reference)
    if reference.key is None:
        return text.removesuffix("\n").removesuffix("\r")
    lines: Mapping[str, str] = read_properties(text)
    if reference.key not in lines:
        raise UnknownObjectError(
            f"{reference}: there is no key '{reference.key}' in {reference.path}",
            hint=did_you_mean(reference.key, lines) or "the file has lines of the form key=value",
        )
    return lines[reference.key]


def _text_of(reference: FileReference) -> str:
    file = Path(reference.path)
    try:
        return read_allowed_file(file, what=str(reference))
    except FileNotFoundError:
        siblings = _siblings(file)
        near = did_you_mean(file.name, siblings)
        raise UnknownObjectError(
            f"{reference}: there is no file {file} where the process connects ({_here()})",
            hint=near or "every machine that connects needs the file at this path",
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{reference}: the file cannot be read where the process connects ({_here()}): {error.strerror}",
            hint="allow the user that runs the process to read it",
        ) from None


def _siblings(file: Path) -> list[str]:
    try:
        return [other.name for other in file.parent.iterdir()]
    except OSError:
        return []
