"""Where one may listen, and with what; the addresses that are shown."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.errors import ConfigError
from penstock.sql.serve.settings import (
    Anyone,
    Keystore,
    Ldap,
    Login,
    PasswordFile,
    PemFiles,
    ServeSettings,
    check_exposure,
    check_port,
    jdbc_url,
    make_login,
    make_tls,
    sqlalchemy_url,
)

USERS = PasswordFile(path=Path("users"))
PEM = PemFiles(certificate=Path("a.pem"), key=Path("a.key"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_the_loopback_interface_needs_nothing(host: str) -> None:
    """Only this machine's users reach it."""
    check_exposure(ServeSettings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "db.example.com"])
@pytest.mark.parametrize(
    ("login", "tls", "message"),
    [
        (Anyone(), None, "could read every table"),
        (Anyone(), PEM, "could read every table"),
        (USERS, None, "in clear text"),
    ],
)
def test_an_address_that_others_reach_needs_a_log_in_and_tls(
    host: str, login: Login, tls: PemFiles | None, message: str
) -> None:
    """The hint names the options."""
    with pytest.raises(ConfigError, match=message) as caught:
        check_exposure(ServeSettings(host=host, login=login, tls=tls))

    assert "--insecure" in str(caught.value.hint)


def test_with_a_log_in_and_tls_any_address_will_do() -> None:
    """With a directory as well as with a file."""
    check_exposure(ServeSettings(host="0.0.0.0", login=USERS, tls=PEM))
    check_exposure(ServeSettings(host="::", login=Ldap(url="ldaps://d"), tls=PEM))


def test_a_directory_elsewhere_must_encrypt() -> None:
    """On this machine it need not."""
    check_exposure(ServeSettings(login=Ldap(url="ldap://127.0.0.1:3890")))

    with pytest.raises(ConfigError, match="passwords would go to ldap://d"):
        check_exposure(ServeSettings(login=Ldap(url="ldap://d")))


@pytest.mark.parametrize("url", ["d.example.com", "http://d", "ldap://", "ldaps:d"])
def test_an_address_that_is_none_of_a_directory_is_refused(url: str) -> None:
    """A scheme and a host are needed."""
    with pytest.raises(ConfigError, match="is no address of a directory"):
        Ldap(url=url)


def test_a_pattern_without_a_place_for_the_user_is_refused() -> None:
    """Everybody would be bound as one."""
    with pytest.raises(ConfigError, match="has no %s"):
        Ldap(url="ldaps://d", user_pattern="uid=alice,dc=acme")


@pytest.mark.parametrize(
    "options",
    [
        {"users": Path("u"), "ldap": "ldaps://d"},
        {"user_pattern": "uid=%s"},
        {"domain": "acme"},
        {"ldap": "ldaps://d", "user_pattern": "uid=%s", "domain": "acme"},
    ],
)
def test_options_of_log_ins_that_do_not_fit_are_refused(options: dict[str, Any]) -> None:
    """Rather than one of them being ignored."""
    nothing: dict[str, Any] = {"users": None, "ldap": None, "user_pattern": None, "domain": None}
    with pytest.raises(ConfigError):
        make_login(**nothing | options)


@pytest.mark.parametrize(
    "options",
    [
        {"certificate": Path("a.pem")},
        {"key": Path("a.key")},
        {"keystore": Path("k")},
        {
            "keystore": Path("k"),
            "keystore_password": "x",
            "certificate": Path("a"),
            "key": Path("b"),
        },
    ],
)
def test_options_of_tls_that_do_not_fit_are_refused(options: dict[str, Any]) -> None:
    """Halves of pairs, both ways at once, a keystore without its password."""
    nothing: dict[str, Any] = {
        "keystore": None,
        "keystore_password": None,
        "certificate": None,
        "key": None,
    }
    with pytest.raises(ConfigError):
        make_tls(**nothing | options)


def test_a_keystores_password_does_not_show() -> None:
    """In the value's text, which ends up in logs."""
    tls = make_tls(keystore=Path("k"), keystore_password="hidden", certificate=None, key=None)

    assert tls == Keystore(path=Path("k"), password="hidden")
    assert "hidden" not in repr(ServeSettings(tls=tls))


def test_a_port_that_is_taken_is_refused() -> None:
    """Java would only log it. Port 0 is any that is free."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = ServeSettings(port=other.getsockname()[1])
        with pytest.raises(ConfigError, match=rf"cannot listen on 127\.0\.0\.1:{taken.port}"):
            check_port(taken)

    check_port(ServeSettings(port=0))


def test_an_address_that_is_not_this_machines_is_refused() -> None:
    """192.0.2.0/24 is nobody's (RFC 5737)."""
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0"):
        check_port(ServeSettings(host="192.0.2.1", port=0))


@pytest.mark.parametrize(
    ("settings", "jdbc", "alchemy"),
    [
        (ServeSettings(), "jdbc:hive2://127.0.0.1:10000/", "hive://127.0.0.1:10000/default"),
        (
            ServeSettings(host="0.0.0.0", port=1, login=USERS),
            "jdbc:hive2://127.0.0.1:1/",
            "hive://USER:PASSWORD@127.0.0.1:1/default?auth=LDAP",
        ),
        (ServeSettings(host="::1", tls=PEM), "jdbc:hive2://[::1]:10000/;ssl=true", None),
    ],
)
def test_addresses_are_shown_as_clients_take_them(
    settings: ServeSettings, jdbc: str, alchemy: str | None
) -> None:
    """PyHive has no option for TLS over the binary protocol."""
    assert jdbc_url(settings) == jdbc
    assert sqlalchemy_url(settings) == alchemy
