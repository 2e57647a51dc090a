"""Whether `penstock-native` is used, and what is said where it is not."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from types import ModuleType

import pytest

from penstock.connector.kafka.client import native
from penstock.connector.kafka.client.connection import Connection
from penstock.connector.kafka.client.consumer import KafkaConsumer
from penstock.connector.kafka.client.draining import open_consumer

CONNECTION = Connection.of({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})


class UnusableError(Exception):
    """That of the package."""


@pytest.fixture(autouse=True)
def looked_for_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is found is kept in a process."""
    monkeypatch.delenv(native.SWITCH, raising=False)
    native._FOUND.clear()
    yield
    native._FOUND.clear()


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package that cannot drain any consumer."""
    made = ModuleType("penstock_native")

    def refuse(*_: object, **__: object) -> object:
        raise UnusableError("the handle is elsewhere")

    vars(made).update(API=native.API, UnusableError=UnusableError, check_client=lambda: "2.16.0")
    vars(made).update(RecordQueue=refuse)
    monkeypatch.setitem(sys.modules, "penstock_native", made)
    monkeypatch.setattr(native, "version", lambda _: "0.1.0")
    return made


def test_the_switch_turns_it_off(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a comparison, or a fault."""
    assert native.native_package() is package
    monkeypatch.setenv(native.SWITCH, "0")

    assert native.native_package() is None
    assert "PENSTOCK_NATIVE=0" in native.find_native().text


def test_it_need_not_be_installed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That is no fault, and nothing is logged."""
    monkeypatch.setitem(sys.modules, "penstock_native", None)

    assert native.native_package() is None
    assert not native.find_native().faulty
    assert caplog.text == ""


def test_a_package_that_cannot_be_loaded_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it needs may be missing, or be of another platform; reading goes on."""
    for error in (ImportError("libarrow.so: no such file"), ModuleNotFoundError(name="pyarrow")):

        def refuse(_: str, error: ImportError = error) -> ModuleType:
            raise error

        monkeypatch.setattr(native.importlib, "import_module", refuse)
        native._FOUND.clear()

        assert native.native_package() is None
        assert native.find_native().faulty
        assert native.find_native().text == f"it cannot be loaded: {error}"


def test_a_package_of_a_folder_has_no_version(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one on PYTHONPATH, which pip did not install."""

    def refuse(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(native, "version", refuse)

    assert native.native_package() is package
    assert native.find_native().text == "penstock-native of a folder, librdkafka 2.16.0"


def test_another_interface_is_not_used_and_said_once(
    package: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    """A package of another release."""
    vars(package).update(API=7)
    with caplog.at_level(logging.WARNING):
        assert [native.native_package() for _ in range(3)] == [None] * 3

    assert caplog.text.count("has the interface 7") == 1


def test_another_client_library_is_not_used(package: ModuleType) -> None:
    """The package says why."""

    def refuse() -> str:
        raise UnusableError("librdkafka 3 is not of version 2")

    vars(package).update(check_client=refuse)
    found = native.find_native()

    assert found.package is None
    assert found.faulty
    assert found.text == "librdkafka 3 is not of version 2"


@pytest.mark.usefixtures("package")
def test_a_consumer_that_cannot_be_drained_reads_in_python(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With a line in the log, once in a process."""
    for _ in range(2):
        consumer = open_consumer(CONNECTION)
        assert type(consumer) is KafkaConsumer
        consumer.close()

    assert caplog.text.count("the handle is elsewhere") == 1
