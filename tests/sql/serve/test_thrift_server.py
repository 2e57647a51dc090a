"""What Spark's Thrift server is told, in Hive's words."""

from __future__ import annotations

from pathlib import Path

from penstock.sql.serve.server import hive_properties

URL = "ldap://127.0.0.1:4711"


def properties() -> dict[str, str]:
    """The properties of a server for ten connections."""
    written = hive_properties(log_in_url=URL, scratch=Path("/tmp/s"), connections=10)
    return {key.removeprefix("hive.server2."): value for key, value in written.items()}


def test_the_thrift_server_is_for_the_front_alone() -> None:
    """On the loopback interface, and for whoever knows what the LDAP server of this process knows."""
    found = properties()

    assert (found["thrift.bind.host"], found["thrift.port"]) == ("127.0.0.1", "0")
    assert (found["authentication"], found["authentication.ldap.url"]) == ("LDAP", URL)
    assert found["transport.mode"] == "binary"
    assert int(found["thrift.max.worker.threads"]) > 10


def test_nobody_acts_for_another_user() -> None:
    """Statements run as the server's user, whatever a client says."""
    found = properties()

    assert (found["enable.doAs"], found["allow.user.substitution"]) == ("false", "false")


def test_nothing_is_written_outside_the_scratch_folder() -> None:
    """Hive's defaults are folders that all users of a machine share."""
    places = [value for value in properties().values() if value.startswith("/")]

    assert len(places) == 5
    assert all(place.startswith("/tmp/s/") for place in places)
