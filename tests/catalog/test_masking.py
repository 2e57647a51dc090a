"""What a process must not show: spellings, errors, logs."""

from __future__ import annotations

import logging
from io import StringIO

import pytest

from penstock.catalog import masking
from penstock.catalog.errors import PenstockError
from penstock.catalog.masking import keep_secret, mask_error, masked, without_secrets


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests say what they like."""
    monkeypatch.setattr(masking, "_values", set())


@pytest.mark.parametrize(
    "said",
    ["it's 100%/sure", "it''s 100%/sure", "it%27s%20100%25%2Fsure", "it%27s+100%25%2Fsure"],
)
def test_a_value_is_masked_however_it_is_spelled(said: str) -> None:
    """As in SQL and in URLs too."""
    keep_secret("it's 100%/sure")

    assert without_secrets(f"<{said}>") == "<******>"


def test_a_key_of_several_lines_is_masked_line_by_line() -> None:
    """A certificate is shown in pieces, and with its newlines escaped."""
    keep_secret("BEGIN\nMIIEabcd\nEND")

    assert without_secrets("see MIIEabcd here") == "see ****** here"
    assert without_secrets('{"key": "BEGIN\\nMIIEabcd\\nEND"}') == '{"key": "******"}'


def test_the_mask_can_have_the_length_of_the_value() -> None:
    """A caret below the line stays where it belongs."""
    keep_secret("hunter2-mask")

    assert without_secrets("a hunter2-mask b", same_length=True) == "a ************ b"


def test_short_values_are_not_masked() -> None:
    """Masking every `a` makes a log unreadable."""
    keep_secret("a")

    assert without_secrets("banana") == "banana"


def test_documents_are_masked_in_their_texts() -> None:
    """Keys and numbers stay."""
    keep_secret("hunter2-mask")

    assert masked({"a": ["x hunter2-mask", 1], "b": {"c": None}}) == {
        "a": ["x ******", 1],
        "b": {"c": None},
    }


def test_an_error_never_repeats_a_secret() -> None:
    """What a client or a driver says passes through its message and hint."""
    keep_secret("hunter2-mask")
    error = PenstockError("bad value hunter2-mask", hint="not hunter2-mask")

    assert str(error) == error.message == "bad value ******"
    assert error.hint == "not ******"


def test_what_led_to_an_error_is_masked_with_it() -> None:
    """Others report the whole chain: Spark writes a Python traceback into its own log."""
    keep_secret("hunter2-mask")
    cause = KeyError("hunter2-mask")
    error = RuntimeError("because of hunter2-mask", 1)
    error.__cause__ = cause

    mask_error(error)

    assert "hunter2-mask" not in f"{error} {error.args} {cause} {cause.args}"


@pytest.fixture
def log() -> StringIO:
    """What a handler writes that knows nothing of secrets."""
    return StringIO()


@pytest.fixture
def logger(log: StringIO, monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """A logger of somebody else."""
    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler(log)])
    before = logging.getLogRecordFactory()
    yield logging.getLogger("somebody.else")
    logging.setLogRecordFactory(before)


def test_logs_are_masked_whoever_writes_them(logger: logging.Logger, log: StringIO) -> None:
    """In the text, in what is put into it, and in stack traces."""
    keep_secret("hunter2-mask")
    try:
        raise ValueError("no hunter2-mask")
    except ValueError:
        logger.exception("failed with %s", "hunter2-mask")

    assert "failed with ******" in log.getvalue()
    assert "ValueError: no ******" in log.getvalue()
    assert "hunter2-mask" not in log.getvalue()


def test_a_kind_of_log_record_that_a_program_chose_stays(
    logger: logging.Logger, log: StringIO
) -> None:
    """Its factory makes the records; ours masks what they say."""

    class Numbered(logging.LogRecord):
        number = 7

    logging.setLogRecordFactory(Numbered)
    keep_secret("hunter2-mask")
    logger.warning("the %s", "hunter2-mask")
    record = logging.getLogRecordFactory()("n", 30, "f", 1, "m", (), None)

    assert log.getvalue() == "the ******\n"
    assert isinstance(record, Numbered)
