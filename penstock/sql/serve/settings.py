"""What is to be served, where, to whom: values, and the rules that hold between them. Checked before Spark starts."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never
from urllib.parse import urlsplit

from penstock.catalog.errors import ConfigError

DEFAULT_PORT = 10000
"""What Hive's drivers take where no port is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anyone:
    """No log-in: the server takes any name and any password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordFile:
    """Users of a password file (`password_file.py`)."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Ldap:
    """Users of a directory. `user_pattern` makes the name that is bound, with %s for the user: `uid=%s,ou=people,dc=x`.

    `domain` is put behind a name instead, as Active Directory has it: user@domain.
    """

    url: str
    user_pattern: str | None = None
    domain: str | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"ldap", "ldaps"} or not parts.hostname:
            raise ConfigError(
                f"--ldap {self.url!r} is no address of a directory",
                hint="for example --ldap ldaps://directory.example.com:636",
            )
        if self.user_pattern is not None and ("%s" not in self.user_pattern):
            raise ConfigError(
                f"--ldap-user-pattern {self.user_pattern!r} has no %s, where the user's name goes",
                hint="for example --ldap-user-pattern uid=%s,ou=people,dc=example,dc=com",
            )
        if self.user_pattern is not None and self.domain is not None:
            raise ConfigError(
                "--ldap-user-pattern and --ldap-domain exclude each other",
                hint="a pattern for OpenLDAP, a domain for Active Directory",
            )


Login = Anyone | PasswordFile | Ldap


@dataclass(frozen=True, slots=True, kw_only=True)
class Keystore:
    """A Java keystore, JKS or PKCS12, with one key pair, and its password."""

    path: Path
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PemFiles:
    """A certificate with its chain, and its private key without a passphrase, in PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Where the server listens, and whom it lets in. `port` 0 is any that is free."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    login: Login = field(default_factory=Anyone)
    tls: Keystore | PemFiles | None = None


def make_login(
    *, users: Path | None, ldap: str | None, user_pattern: str | None, domain: str | None
) -> Login:
    """Choose how users log in. Raises ConfigError for options that exclude each other."""
    if users is not None and ldap is not None:
        raise ConfigError(
            "--users and --ldap exclude each other", hint="users come from a file or a directory"
        )
    if ldap is None and (user_pattern or domain):
        raise ConfigError("--ldap-user-pattern and --ldap-domain need --ldap URL")
    if ldap is not None:
        return Ldap(url=ldap, user_pattern=user_pattern, domain=domain)
    return Anyone() if users is None else PasswordFile(path=users)


def make_tls(
    *,
    keystore: Path | None,
    keystore_password: str | None,
    certificate: Path | None,
    key: Path | None,
) -> Keystore | PemFiles | None:
    """Choose where TLS has its keys. Raises ConfigError for halves of pairs, and for both."""
    if (certificate is None) != (key is None):
        raise ConfigError("--tls-certificate and --tls-key go together")
    if keystore is not None and certificate is not None:
        raise ConfigError(
            "--tls-keystore and --tls-certificate exclude each other",
            hint="a Java keystore, or PEM files",
        )
    if keystore is not None:
        if keystore_password is None:
            raise ConfigError(
                "--tls-keystore needs its password",
                hint="set it in the environment: PENSTOCK_TLS_KEYSTORE_PASSWORD",
            )
        return Keystore(path=keystore, password=keystore_password)
    if certificate is not None and key is not None:
        return PemFiles(certificate=certificate, key=key)
    return None


def check_exposure(settings: ServeSettings) -> None:
    """Refuse to serve tables to the network without log-in, and passwords without TLS. Raises ConfigError."""
    login = settings.login
    if isinstance(login, Ldap):
        directory = urlsplit(login.url)
        if directory.scheme == "ldap" and not _is_loopback(directory.hostname or ""):
            raise ConfigError(
                f"passwords would go to {login.url} in clear text",
                hint="an ldaps:// address, or --insecure where the network is trusted",
            )
    if _is_loopback(settings.host):
        return
    if isinstance(login, Anyone):
        raise ConfigError(
            f"on {settings.host} everybody who reaches this machine could read every table",
            hint="--users FILE or --ldap URL asks for a password; --insecure serves without",
        )
    if settings.tls is None:
        raise ConfigError(
            f"on {settings.host} passwords would go over the network in clear text",
            hint="--tls-certificate and --tls-key, or --tls-keystore; --insecure where something else encrypts",
        )


def check_port(settings: ServeSettings) -> None:
    """Find out before Spark starts whether the port is free; for 0, whether the interface exists.

    Raises ConfigError.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.create_server((settings.host, settings.port), family=family).close()
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}",
            hint="another --port, or --port 0 for any that is free",
        ) from error


def jdbc_url(settings: ServeSettings) -> str:
    """Write the address as Hive's JDBC driver takes it."""
    return f"jdbc:hive2://{_address(settings)}/" + (";ssl=true" if settings.tls else "")


def sqlalchemy_url(settings: ServeSettings) -> str | None:
    """Write the address as PyHive's SQLAlchemy dialect takes it; None with TLS, for which it has no option."""
    if settings.tls is not None:
        return None
    match settings.login:
        case Anyone():
            return f"hive://{_address(settings)}/default"
        case PasswordFile() | Ldap():
            return f"hive://USER:PASSWORD@{_address(settings)}/default?auth=LDAP"
    assert_never(settings.login)


def _address(settings: ServeSettings) -> str:
    host = "127.0.0.1" if settings.host == "0.0.0.0" else settings.host  # noqa: S104  shown, not bound
    return f"[{host}]:{settings.port}" if ":" in host else f"{host}:{settings.port}"


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
