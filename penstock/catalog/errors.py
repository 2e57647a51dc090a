"""Every error that Penstock raises on purpose, in one tree; and how one travels inside another program's text.

The tree is drawn at `PenstockError`.
"""

from __future__ import annotations

import difflib
import heapq
import json
import os
import re
import secrets
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from penstock.catalog.masking import without_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A place in a text that a person edits. `line` and `column` count from 1, `length` is in characters.

    Where a template made the line, `line_text` is what it made, and `column` is a place in that; `template_text` is
    what stands in the file, `called_from` the places (file:line) that included or called what stands there, the
    nearest first.
    """

    file: str
    line: int
    column: int
    length: int
    line_text: str
    template_text: str | None = None
    called_from: tuple[str, ...] = ()


class PenstockError(Exception):
    """Root of the tree. `message` says what and where, `hint` what to do, `span` points into the SQL, `code` names
    the kind for programs and for docs/errors.md (`penstock errors` explains each).

    PenstockError
    ├── InputError                what the user gave is wrong, nothing was started (exit status 2), or `may_pass` (75)
    │   ├── SqlSyntaxError            the text is not Flink SQL
    │   ├── TemplateError             the Jinja template cannot be rendered
    │   ├── UnknownObjectError        no such table, view, column, database
    │   ├── ObjectExistsError         the name is taken
    │   ├── DefinitionError           a definition contradicts itself, or what it is used for
    │   ├── OptionError               an option is unknown, missing or malformed
    │   ├── UnsupportedError          Flink has it, Penstock has not (here)
    │   ├── StateMismatchError        a checkpoint or a target is of something else
    │   ├── PipelineLockedError       another runner has the pipeline
    │   ├── ConfigError               project file, environment, installation
    │   ├── CatalogError              the catalog's store cannot be read
    │   └── InputErrors               several of these, of one file
    └── RunError                  a statement failed while it ran (exit status 1)
        ├── BadRecordError            a record cannot be decoded                            permanent
        ├── DataLossError             records were deleted before they were read            permanent
        ├── TopicChangedError         a topic was deleted, or deleted and made again        permanent
        ├── BrokerUnavailableError    the broker does not answer
        ├── SinkError                 the target refused rows
        └── QueryFailedError          a query ended for another reason
    """

    code: ClassVar[str] = "PEN-9000"

    def __init__(self, message: str, *, hint: str | None = None, span: Span | None = None) -> None:
        # what passes through from clients, drivers and Java may repeat what they were given
        message = without_secrets(message)
        super().__init__(message)
        self.message = message
        self.hint = hint if hint is None else without_secrets(hint)
        self.span = span

    def within(self, where: str) -> Self:
        """Prefix the message with what the error is of, a file or a sink."""
        self.message = f"{where}: {self.message}"
        self.args = (self.message,)
        return self


class InputError(PenstockError):
    """What the user gave is wrong; nothing was started.

    `may_pass`: the same command may succeed later, with nothing that was given changed. A catalog can also go away in
    the midst of a command: what that had done before stays.
    """

    code: ClassVar[str] = "PEN-9001"

    may_pass: bool = False

    def passing(self) -> Self:
        """Say that the same command may succeed later."""
        self.may_pass = True
        return self


class SqlSyntaxError(InputError):
    """The text is not Flink SQL."""

    code: ClassVar[str] = "PEN-1001"


class TemplateError(InputError):
    """The Jinja template cannot be rendered."""

    code: ClassVar[str] = "PEN-1101"


class UnknownObjectError(InputError):
    """No such table, view, column or database."""

    code: ClassVar[str] = "PEN-2001"


class ObjectExistsError(InputError):
    """The name is taken."""

    code: ClassVar[str] = "PEN-2002"


class DefinitionError(InputError):
    """A definition contradicts itself, or what it is used for.

    `column` is the name of the column that it is about, by which a statement finds its place.
    """

    code: ClassVar[str] = "PEN-3001"

    column: str | None = None

    def about(self, column: str) -> Self:
        """Set the column that the error is about."""
        self.column = column
        return self


class OptionError(InputError):
    """An option is unknown, missing or malformed."""

    code: ClassVar[str] = "PEN-4001"


class UnsupportedError(InputError):
    """Flink has it, Penstock has not (here)."""

    code: ClassVar[str] = "PEN-5001"


class StateMismatchError(InputError):
    """A checkpoint or a target is of something else."""

    code: ClassVar[str] = "PEN-7001"


class PipelineLockedError(InputError):
    """Another runner has the pipeline."""

    code: ClassVar[str] = "PEN-7002"

    may_pass = True


class ConfigError(InputError):
    """Project file, environment or installation is wrong."""

    code: ClassVar[str] = "PEN-4002"


class CatalogError(InputError):
    """The catalog's store cannot be read."""

    code: ClassVar[str] = "PEN-6001"


class InputErrors(InputError):
    """Several input errors, of one file, in the order of their places."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        super().__init__("\n".join(error.message for error in errors))
        self.errors = tuple(errors)
        # one that stays is there at the next start, too
        self.may_pass = bool(self.errors) and all(error.may_pass for error in self.errors)

    def __reduce__(self) -> tuple[type[InputErrors], tuple[tuple[InputError, ...]]]:
        # an exception is copied by its arguments, and ours is the text
        return (type(self), (self.errors,))


class RunError(PenstockError):
    """A statement failed while it ran. `permanent`: trying again would fail again; None leaves it to the kind."""

    code: ClassVar[str] = "PEN-8000"

    permanent: bool = False

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        span: Span | None = None,
        permanent: bool | None = None,
    ) -> None:
        super().__init__(message, hint=hint, span=span)
        if permanent is not None:
            self.permanent = permanent


class RecordFault(StrEnum):
    """What makes a record a bad one, as metrics name it."""

    UNDECODABLE = "undecodable"
    FUTURE = "future"


class BadRecordError(RunError):
    """A record cannot be decoded, or its time is too far in the future (`fault`), and the table says to fail."""

    code: ClassVar[str] = "PEN-8001"

    permanent = True

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        span: Span | None = None,
        permanent: bool | None = None,
        fault: RecordFault = RecordFault.UNDECODABLE,
    ) -> None:
        super().__init__(message, hint=hint, span=span, permanent=permanent)
        self.fault = fault


class DataLossError(RunError):
    """Records were deleted before they were read."""

    code: ClassVar[str] = "PEN-7003"

    permanent = True


class TopicChangedError(RunError):
    """A topic was deleted, or deleted and made again."""

    code: ClassVar[str] = "PEN-7004"

    permanent = True


class BrokerUnavailableError(RunError):
    """The broker does not answer."""

    code: ClassVar[str] = "PEN-6002"


class SinkError(RunError):
    """The target refused rows."""

    code: ClassVar[str] = "PEN-8002"


class QueryFailedError(RunError):
    """A query ended for another reason."""

    code: ClassVar[str] = "PEN-8003"


MARK_VARIABLE = "PENSTOCK_FAILURE_MARK"
"""The variable by which a process passes the mark of errors to those that it starts."""

_MARK = re.compile(r"[0-9a-f]{32}")


def failure_mark() -> str:
    """Return the word that marks errors of this process and of those that it starts: nobody else can guess it.

    Made where the environment has none. Without it a record that Spark quotes could be taken for an error of Penstock.
    """
    mark = os.environ.get(MARK_VARIABLE, "")
    if not _MARK.fullmatch(mark):
        mark = os.environ[MARK_VARIABLE] = secrets.token_hex(16)
    return mark


def encode_failure(error: PenstockError) -> str:
    """Write an error so that `decode_failure` finds it in any longer text (Spark turns exceptions into text)."""
    value: dict[str, object] = {
        "kind": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
    }
    if isinstance(error, RunError):
        value["permanent"] = error.permanent
    if isinstance(error, BadRecordError):
        value["fault"] = error.fault
    # a mark inside the message is a text like others, and ends or begins nothing
    text = json.dumps(value).replace("]]", "]\\u005d").replace("[[", "[\\u005b")
    return f"[[penstock:{failure_mark()}:{text}]]"


def decode_failure(text: str) -> PenstockError | None:
    """Find the last error that a process with our mark wrote into `text`; None when there is none.

    The last is the one that was raised: what led to it stands before it.
    """
    found = re.findall(rf"\[\[penstock:{failure_mark()}:(\{{.*?\}})\]\]", text)
    if not found:
        return None
    try:
        value = json.loads(found[-1])
        message, hint = str(value["message"]), value.get("hint")
    except (json.JSONDecodeError, KeyError):
        return None
    kinds: dict[str, type[PenstockError]] = {
        kind.__name__: kind for kind in _all_kinds(PenstockError)
    }
    kinds[InputErrors.__name__] = InputError  # it is made of errors, and this is one text
    # a kind of another package that is not loaded here
    kind = kinds.get(value.get("kind"), QueryFailedError)
    error = kind(message, hint=hint)
    if isinstance(error, RunError):
        error.permanent = bool(value.get("permanent", error.permanent))
    if isinstance(error, BadRecordError):
        error.fault = RecordFault(value.get("fault", error.fault))
    return error


def _all_kinds(root: type[PenstockError]) -> Iterable[type[PenstockError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _all_kinds(kind)


LOOKED_AT = 500
"""Names that are compared letter by letter with one that is not there: of a catalog's thousands each takes 0.1 ms."""


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return `did you mean 'x'?` for the nearest of `known`; None when nothing is near.

    A name that differs in upper and lower case alone is the nearest. Of very many names those are compared that begin
    and end most like `word`.
    """
    names, folded = list(known), word.casefold()
    near = [name for name in names if name.casefold() == folded]
    if not near and (alike := _look_alike(word, names)) is not None:
        return alike
    if not near:
        if len(names) > LOOKED_AT:
            names = heapq.nlargest(LOOKED_AT, names, key=lambda name: _ends_alike(word, name))
        near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else None


_DRAWN_ALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425"
    "\u03bf\u03bd\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7",
    "aeopcyxijsABEKMHOPCTXovABEZHIKMNOPTYX",
    "\u200b\u200c\u200d\u2060\ufeff\u00ad",
)
"""Cyrillic and Greek letters to the Latin ones that look the same; invisible characters to nothing."""


def _look_alike(word: str, names: Iterable[str]) -> str | None:
    """Return the hint for a word that looks like a name, and has another character than it."""
    drawn = unicodedata.normalize("NFKC", word).translate(_DRAWN_ALIKE).casefold()
    for name in names:
        if word != name and drawn == name.casefold():
            foreign = next(character for character in word if character not in name)
            code, title = f"U+{ord(foreign):04X}", unicodedata.name(foreign, "no name")
            return f"did you mean {name!r}? It looks the same, but this one has the character {code}, {title}"
    return None


SHOWN = 20
"""Names that an error lists; of more, half as many, and how many they are."""


def known_are(names: Sequence[str], *, all_by: str) -> str:
    """Return `known are: a, b`; of very many the first few, and the statement `all_by` that lists all of them."""
    if len(names) <= SHOWN:
        return f"known are: {', '.join(names)}"
    few = SHOWN // 2
    more = len(names) - few
    return f"known are: {', '.join(names[:few])}, and {more:,} more; {all_by} lists them"


def _ends_alike(one: str, other: str) -> int:
    """How many characters two words have in common at the beginning and at the end, less what one is longer by."""
    ahead = _begins_alike(one, other)
    behind = _begins_alike(one[ahead:][::-1], other[ahead:][::-1])
    return ahead + behind - abs(len(one) - len(other))


def _begins_alike(one: str, other: str) -> int:
    same = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        same += 1
    return same
