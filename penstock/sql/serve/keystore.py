"""Gives Java its TLS keys: a keystore as it is, or one made of PEM files for as long as the server runs."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.catalog.errors import ConfigError
from penstock.sql.serve.settings import Keystore, PemFiles

__all__ = ["as_keystore"]

PEM_HINT = "a certificate (its chain after it) and an unencrypted private key, both in PEM"


@contextmanager
def as_keystore(tls: Keystore | PemFiles | None) -> Iterator[Keystore | None]:
    """Yield the keystore; one that is made of PEM files is readable by the owner only, and removed afterwards.

    Raises ConfigError where a file cannot be read, and where a key is not that of the certificate.
    """
    match tls:
        case None:
            yield None
        case Keystore():
            _read(tls.path)
            yield tls
        case PemFiles():
            packed, password = _packed(tls)
            with TemporaryDirectory(prefix="penstock-tls-") as folder:
                path = Path(folder) / "keys.p12"
                path.touch(mode=0o600)
                path.write_bytes(packed)
                yield Keystore(path=path, password=password)


def _packed(pem: PemFiles) -> tuple[bytes, str]:
    """Pack PEM files into a PKCS12 keystore; gives it with the password that it got."""
    # only a server with TLS pays for these
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
    from cryptography.hazmat.primitives.serialization import load_pem_private_key as load_key
    from cryptography.x509 import load_pem_x509_certificates as load_certificates

    certificate, key = _read(pem.certificate), _read(pem.key)
    password = secrets.token_urlsafe()
    try:
        first, *chain = load_certificates(certificate)
    except ValueError as error:
        raise ConfigError(f"{pem.certificate} is no certificate: {error}", hint=PEM_HINT) from error
    try:
        private = load_key(key, password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{pem.key} is no private key: {error}", hint=PEM_HINT) from error
    try:
        packed = pkcs12.serialize_key_and_certificates(
            b"penstock",
            private,  # type: ignore[arg-type]  # it refuses what it does not take
            first,
            chain,
            BestAvailableEncryption(password.encode()),
        )
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{pem.key} and {pem.certificate} do not fit: {error}", hint=PEM_HINT
        ) from error
    return packed, password


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
