"""An attacker's day, as another account of the machine: it can write where everybody may, and look where it may.

It wants records, keys and passwords of whoever runs Penstock, or that they run its code and settings.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pyspark import SparkContext

from penstock.catalog.errors import ConfigError
from penstock.catalog.secrets.crypto import (
    KEY_FILE_VARIABLE,
    KEY_VARIABLE,
    find_keys,
    key_location,
    new_key,
)
from penstock.catalog.secrets.private_folder import make_private_folder
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.spark.callback_server import start_callback_server
from penstock.sql.script.files import SAFE_FOLDERS_VARIABLE
from penstock.sql.script.project import find_project, load_dotenv
from penstock.sql.spark_process import jvm
from penstock.sql.spark_process.jvm import launch_jvm, log_files
from penstock.sql.spark_process.spark_session import warehouse_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOBODY = 65534

as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root can act as another account",
)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like /tmp that the other account reaches, and an environment that trusts nothing."""
    for name in (SAFE_FOLDERS_VARIABLE, "SUDO_UID", KEY_VARIABLE, KEY_FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and len(folder.parts) > 2:
            folder.chmod(0o755)
    place = tmp_path / "tmp"
    place.mkdir()
    place.chmod(0o1777)
    return place


def as_nobody(act: Callable[[], Any]) -> bool:
    """Act as the other account, in a process of its own; tells whether it could."""
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            act()
        except OSError:
            os._exit(1)
        except BaseException:  # noqa: BLE001  the child must not go on as pytest
            os._exit(2)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in {0, 1}
    return os.waitstatus_to_exitcode(status) == 0


@pytest.mark.slow
@as_root
def test_another_account_reads_nothing_of_a_project(shared: Path) -> None:
    """Neither records nor keys nor logs, whatever umask its owner has."""
    before = os.umask(0)
    try:
        project = shared / "project"
        project.mkdir(0o755)
        data = project / ".penstock"
        SqlCatalog(f"sqlite:///{data}/catalog.db").secrets.create("one", "value")
        make_private_folder(data / "checkpoints" / "p" / "state")
        (data / "checkpoints" / "p" / "state" / "1.delta").write_text("a record")
        (data / "logs").mkdir()
        (data / "logs" / "spark.log").write_text("a record")
    finally:
        os.umask(before)

    assert as_nobody(lambda: list(project.iterdir()))  # it reaches the project
    for path in (data, data / "logs", data / "checkpoints"):
        assert not as_nobody(partial(os.scandir, path))
    for name in ("catalog.db", "secret.key", "logs/spark.log", "checkpoints/p/state/1.delta"):
        assert (data / name).exists()
        assert not as_nobody((data / name).read_bytes)
        assert not as_nobody((data / name).unlink)
        assert not as_nobody(partial(os.link, data / name, shared / "linked"))


@as_root
@pytest.mark.parametrize("name", ["penstock.toml", ".env", ".penstock"])
def test_another_account_configures_nothing(shared: Path, name: str) -> None:
    """It puts files into the folder above, as a file, a link to the victim's own, or a folder."""
    mine = shared / "mine"
    mine.mkdir()
    victim = shared / "victim.toml"
    victim.write_text("")
    makers: list[Callable[[], Any]] = [
        (shared / name).mkdir if name == ".penstock" else (shared / name).touch,
        lambda: (shared / name).symlink_to(victim),
    ]
    for make in makers:
        assert as_nobody(make)
        start = mine if name == "penstock.toml" else shared
        with pytest.raises(ConfigError, match="belongs to another user"):
            find_project(start)
        if name == ".env":
            with pytest.raises(ConfigError, match="belongs to another user"):
                load_dotenv(shared)
        found = shared / name
        found.rmdir() if found.is_dir() and not found.is_symlink() else found.unlink()
    assert find_project(mine).file is None


@as_root
def test_another_account_does_not_wait_with_a_folder_or_a_link(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For Spark's own tables, whose folder has a name that can be guessed."""
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    folder = warehouse_folder()
    folder.rmdir()
    makers: list[Callable[[], Any]] = [
        lambda: folder.mkdir(0o777),
        lambda: folder.symlink_to(shared),
        lambda: folder.symlink_to("/root"),
    ]
    for make in makers:
        assert as_nobody(make)
        with pytest.raises(ConfigError, match="not a folder of this user"):
            warehouse_folder()
        folder.unlink() if folder.is_symlink() else folder.rmdir()


@as_root
def test_a_key_file_that_others_may_read_or_write_is_refused(shared: Path) -> None:
    """A link to a file of theirs too: they would know the key."""
    theirs = shared / "theirs.key"
    key = new_key()
    assert as_nobody(lambda: theirs.write_text(key))
    link = shared / "secret.key"
    link.symlink_to(theirs)
    for file in (theirs, link):
        with pytest.raises(ConfigError, match=r"may be used by others|belongs to another user"):
            find_keys(key_location(file))
    theirs.chmod(0o600)
    with pytest.raises(ConfigError, match="belongs to another user"):
        find_keys(key_location(link))


def test_the_command_line_of_spark_holds_no_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody reads command lines: settings go by a file of this user alone, which is gone afterwards."""
    seen: dict[str, Any] = {}

    def gateway(conf: object, popen: dict[str, Any]) -> object:
        arguments = os.environ["PYSPARK_SUBMIT_ARGS"].split()
        file = Path(arguments[arguments.index("--properties-file") + 1])
        seen.update(conf=conf, popen=popen, arguments=arguments, file=file)
        seen["text"] = file.read_text(encoding="utf-8")
        seen["rights"] = stat.S_IMODE(file.parent.stat().st_mode)
        return object()

    monkeypatch.setattr(jvm, "launch_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda **_: None)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-cores 1 pyspark-shell")
    launch_jvm({"spark.hadoop.fs.s3a.secret.key": "hunter2"}, log_files(tmp_path / ".penstock"))

    assert "hunter2" not in " ".join(seen["arguments"])
    assert seen["arguments"][-3:] == ["--driver-cores", "1", "pyspark-shell"]
    assert seen["conf"] is None
    assert "spark.hadoop.fs.s3a.secret.key=hunter2" in seen["text"]
    assert seen["rights"] == 0o700
    assert seen["popen"]["umask"] == 0o077
    assert not seen["file"].exists()
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--driver-cores 1 pyspark-shell"


class _Function:
    """What Python hands to Java, as it does for foreachBatch."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def apply(self, value: str) -> str:
        """Note who calls."""
        self.calls.append(value)
        return value

    class Java:
        """What py4j implements in Java."""

        implements: ClassVar = ["scala.Function1"]


@pytest.mark.spark
def test_java_s_port_into_python_takes_calls_of_spark_s_process_alone(spark: SparkSession) -> None:
    """Any account may connect to it: what it asks for is not done, with and without a guessed token."""
    start_callback_server(spark)
    gateway: Any = spark.sparkContext._gateway
    assert spark._jvm is not None
    function = _Function()
    assert spark._jvm.scala.Some("Java").map(function).get() == "Java"
    pool = gateway.gateway_property.pool
    (name,) = [key for key, value in pool.dict.items() if value is function]
    call = f"c\n{name}\napply\nsstranger\ne\n".encode()
    forget = f"g\n{name}\ne\n".encode()

    for asked in (call, forget, b"A\nguessed\ne\n" + call):
        with socket.create_connection(("127.0.0.1", gateway._callback_server.port)) as stranger:
            stranger.settimeout(10)
            stranger.sendall(asked)
            assert answer_of(stranger) in {b"", b"!xn\n"}
    assert name in pool
    assert function.calls == ["Java"]
    assert spark._jvm.scala.Some("Java").map(function).get() == "Java"


def answer_of(connection: socket.socket) -> bytes:
    """All that the other side says before it ends the connection."""
    said = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(100):
            said += piece
    return said
