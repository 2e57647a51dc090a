"""The keys of TLS: read, checked before Spark starts, and made a context that connections are accepted with."""

from __future__ import annotations

import os
import ssl
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.catalog.errors import ConfigError
from penstock.connector.jvm.java import find_java
from penstock.sql.serve.settings import Keystore, PemFiles

PEM_HINT = "a certificate (its chain after it) and an unencrypted private key, both in PEM"
KEYTOOL_TIMEOUT_S = 60


def server_context(tls: Keystore | PemFiles | None) -> ssl.SSLContext | None:
    """Make the context of a server; None without TLS.

    Raises ConfigError where a file cannot be read, and where a key is not that of the certificate.
    """
    match tls:
        case None:
            return None
        case PemFiles():
            _check(tls)
            return _context(tls.certificate, tls.key)
        case Keystore():
            return _of_keystore(tls)


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{key} and {certificate} do not fit: {error}", hint=PEM_HINT) from error
    return context


def _check(pem: PemFiles) -> None:
    """Report for each file what is wrong with it, which OpenSSL does not. Raises ConfigError."""
    # only a server with TLS pays for these
    from cryptography.hazmat.primitives.serialization import load_pem_private_key as load_key
    from cryptography.x509 import load_pem_x509_certificates as load_certificates

    certificate, key = _read(pem.certificate), _read(pem.key)
    try:
        load_certificates(certificate)
    except ValueError as error:
        raise ConfigError(f"{pem.certificate} is no certificate: {error}", hint=PEM_HINT) from error
    try:
        load_key(key, password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{pem.key} is no private key: {error}", hint=PEM_HINT) from error


def _of_keystore(store: Keystore) -> ssl.SSLContext:
    """Extract the key pair of a Java keystore, by files of this user that are deleted at once."""
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.serialization import pkcs12

    _read(store.path)
    with TemporaryDirectory(prefix="penstock-tls-") as folder:
        packed = Path(folder) / "keys.p12"
        _as_pkcs12(store, packed)
        try:
            key, certificate, chain = pkcs12.load_key_and_certificates(
                packed.read_bytes(), store.password.encode()
            )
        except ValueError as error:
            raise ConfigError(f"the keystore {store.path} cannot be read: {error}") from error
        if key is None or certificate is None:
            raise ConfigError(f"the keystore {store.path} has no key with its certificate")
        text = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
        pem = PemFiles(certificate=Path(folder) / "server.pem", key=Path(folder) / "server.key")
        pem.key.touch(mode=0o600)
        pem.key.write_bytes(text)
        pem.certificate.write_bytes(
            b"".join(one.public_bytes(s.Encoding.PEM) for one in (certificate, *chain))
        )
        return _context(pem.certificate, pem.key)


def _as_pkcs12(store: Keystore, packed: Path) -> None:
    """Write a keystore of whatever kind as PKCS12, with Java's keytool. Raises ConfigError."""
    keytool = [str(find_java().path / "bin" / "keytool"), "-importkeystore", "-noprompt"]
    keytool += ["-srckeystore", str(store.path), "-srcstorepass:env", "STORE_PASSWORD"]
    keytool += ["-destkeystore", str(packed), "-deststoretype", "PKCS12"]
    keytool += ["-deststorepass:env", "STORE_PASSWORD"]
    try:
        subprocess.run(
            keytool,
            env={**os.environ, "STORE_PASSWORD": store.password},
            check=True,
            capture_output=True,
            text=True,
            timeout=KEYTOOL_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stdout", None) or str(error)
        raise ConfigError(
            f"the keystore {store.path} cannot be read: {said.strip()}",
            hint="a JKS or PKCS12 file with one key pair, and its password",
        ) from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
