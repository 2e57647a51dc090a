"""What is served, in Hive's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.sql.serve.settings import Anyone, Keystore, Ldap, Login, PasswordFile
from penstock.sql.serve.thrift import hive_properties

OWN_URL = "ldap://127.0.0.1:4711"


def properties(login: Login, keystore: Keystore | None = None) -> dict[str, str]:
    """The properties without those that are always the same."""
    written = hive_properties(
        host="::1",
        port=7,
        login=login,
        log_in_url=OWN_URL,
        keystore=keystore,
        scratch=Path("/tmp/s"),
    )
    return {key.removeprefix("hive.server2."): value for key, value in written.items()}


@pytest.mark.parametrize(
    ("login", "expected"),
    [
        (Anyone(), {"authentication": "NONE"}),
        (
            PasswordFile(path=Path("u")),
            {"authentication": "LDAP", "authentication.ldap.url": OWN_URL},
        ),
        (
            Ldap(url="ldaps://d", user_pattern="uid=%s,dc=acme"),
            {
                "authentication": "LDAP",
                "authentication.ldap.url": "ldaps://d",
                "authentication.ldap.userDNPattern": "uid=%s,dc=acme",
            },
        ),
        (
            Ldap(url="ldaps://d", domain="acme"),
            {
                "authentication": "LDAP",
                "authentication.ldap.url": "ldaps://d",
                "authentication.ldap.Domain": "acme",
            },
        ),
    ],
)
def test_log_ins_are_said_in_hives_words(login: Login, expected: dict[str, str]) -> None:
    """A password file is an LDAP server of ours."""
    found = {k: v for k, v in properties(login).items() if k.startswith("authentication")}

    assert found == expected


def test_address_and_keystore_are_said_in_hives_words() -> None:
    """The keystore by its full path: Java may have another working directory."""
    with_tls = properties(Anyone(), Keystore(path=Path("keys.p12"), password="hidden"))
    without = properties(Anyone())

    assert (with_tls["thrift.bind.host"], with_tls["thrift.port"]) == ("::1", "7")
    assert with_tls["use.SSL"] == "true"
    assert with_tls["keystore.path"] == str(Path("keys.p12").absolute())
    assert with_tls["keystore.password"] == "hidden"
    assert without["use.SSL"] == "false"


def test_nothing_is_written_outside_the_scratch_folder() -> None:
    """Hive's defaults are folders that all users of a machine share."""
    places = [value for value in properties(Anyone()).values() if value.startswith("/")]

    assert len(places) == 5
    assert all(place.startswith("/tmp/s/") for place in places)
