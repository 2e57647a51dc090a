"""Who may open the page: the address it listens on, its names, the token that is asked for, and TLS.

Read from the command line's options before anything is started; `guard.py` holds requests to it.
"""

from __future__ import annotations

import secrets
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from penstock.catalog.errors import ConfigError

LOOPBACK = "127.0.0.1"
LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
"""Names that a browser may have for a server of its own machine."""

SHORTEST_TOKEN = 20
"""Characters: what a person thinks up in less is guessed."""

TOKEN_BYTES = 32
PEM_HINT = "a certificate (its chain after it) and an unencrypted private key, both in PEM"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAccess:
    """Where the page is and who may open it. `names` are those that a request may have in its Host header.

    `token` None asks for none: the page is this machine's only; `made_token` tells that nobody knows it yet. `tls`
    None is plain HTTP.
    """

    host: str = LOOPBACK
    names: tuple[str, ...] = LOCAL_NAMES
    token: str | None = None
    made_token: bool = False
    tls: ssl.SSLContext | None = None

    def url(self, port: int) -> str:
        """Return the address for people: by the first name where it listens on all addresses."""
        name = self.host if self.names[0] == LOOPBACK else self.names[0]
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPage:
    """The port of a page that a run serves, and who may open it."""

    port: int
    access: PageAccess


LOCAL_ACCESS = PageAccess()
"""Who has an account at this machine."""


def page_access(
    *,
    host: str = LOOPBACK,
    token_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
) -> PageAccess:
    """Read and check what the options say. Where others reach the address and there is no file, a token is made.

    Raises ConfigError: others reach the address and there is no TLS, or a file is wrong.
    """
    if (certificate is None) != (key is None):
        raise ConfigError("TLS needs a certificate and its key", hint=PEM_HINT)
    is_local = _is_loopback(host)
    if not is_local and certificate is None:
        raise ConfigError(
            f"others reach the page at {host}, and nothing keeps them from reading the log-in on its way",
            hint="give a certificate and its key (--tls-cert, --tls-key), or leave the page at 127.0.0.1 and forward "
            "the port: ssh -L 8090:127.0.0.1:8090 HOST",
        )
    token = None if token_file is None else _token(token_file)
    made_token = token is None and not is_local
    if made_token:
        token = secrets.token_urlsafe(TOKEN_BYTES)
    if certificate is None or key is None:
        return PageAccess(host=host, names=_once(*LOCAL_NAMES, host), token=token)
    tls, named = _context(certificate, key), tuple(_names_of(certificate))
    own = () if host in {"0.0.0.0", "::"} else (host,)  # noqa: S104  compared, not listened on
    if is_local:
        names = (*LOCAL_NAMES, *own, *named)
    else:
        names = (
            (*own, *named, *LOCAL_NAMES) if own or named else (socket.gethostname(), *LOCAL_NAMES)
        )
    return PageAccess(host=host, names=_once(*names), token=token, made_token=made_token, tls=tls)


def _once(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def served_page(
    port: int | None,
    *,
    host: str,
    token_file: Path | None,
    certificate: Path | None,
    key: Path | None,
) -> ServedPage | None:
    """Read the options of a run; None without a port. Raises ConfigError as `page_access`."""
    if port is None:
        return None
    access = page_access(host=host, token_file=token_file, certificate=certificate, key=key)
    return ServedPage(port=port, access=access)


def announcement(access: PageAccess, url: str) -> str:
    """Tell where the page is: with the token where it was made here, as it is said nowhere else."""
    if access.token is not None and access.made_token:
        return f"status page: {url}?token={access.token}"
    return f"status page: {url}{' (asks for its token)' if access.token else ''}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _token(file: Path) -> str:
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token in {file} cannot be read: {error}") from error
    if len(token) < SHORTEST_TOKEN or not all(each.isalnum() or each in "-_." for each in token):
        raise ConfigError(
            f"{file} holds no token: one line of {SHORTEST_TOKEN} characters or more, letters, digits, - _ .",
            hint=f"make one: python -c 'import secrets; print(secrets.token_urlsafe())' > {file.name}",
        )
    return token


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # an empty password: OpenSSL would ask on the terminal for that of an encrypted key
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"{certificate} and {key} cannot be used: {error}", hint=PEM_HINT
        ) from error
    return context


def _names_of(certificate: Path) -> Iterator[str]:
    """Return the names of a certificate: a browser takes the server for no other."""
    from cryptography import x509

    found = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    yield from names.get_values_for_type(x509.DNSName)
    yield from map(str, names.get_values_for_type(x509.IPAddress))
