"""Keys for TLS: PEM files, a keystore, and files that will not do."""

from __future__ import annotations

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from penstock.catalog.errors import ConfigError
from penstock.sql.serve.settings import Keystore, PemFiles
from penstock.sql.serve.tls import server_context


@pytest.fixture
def pem(tmp_path: Path) -> PemFiles:
    """A certificate of localhost, signed by itself, and its key."""
    return write_pem(tmp_path)


def write_pem(folder: Path) -> PemFiles:
    """Write a certificate of localhost, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    start = datetime.now(UTC) - timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(start).not_valid_after(start + timedelta(days=30))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    files = PemFiles(certificate=folder / "server.pem", key=folder / "server.key")
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def test_pem_files_make_a_context(pem: PemFiles) -> None:
    """Of TLS 1.2 or newer; without TLS there is none."""
    context = server_context(pem)

    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert server_context(None) is None


@pytest.mark.slow
def test_a_keystore_makes_a_context(pem: PemFiles, tmp_path: Path) -> None:
    """A client that trusts its certificate connects."""
    key = serialization.load_pem_private_key(pem.key.read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(pem.certificate.read_bytes())
    store = Keystore(path=tmp_path / "keys.p12", password="hidden password")
    packed = pkcs12.serialize_key_and_certificates(
        b"server", key, certificate, None, serialization.BestAvailableEncryption(b"hidden password")
    )  # type: ignore[arg-type]
    store.path.write_bytes(packed)
    context = server_context(store)
    assert context is not None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=lambda: greet(listener, context))
        answering.start()
        trusting = ssl.create_default_context(cafile=str(pem.certificate))
        with (
            socket.create_connection(listener.getsockname()[:2]) as raw,
            trusting.wrap_socket(raw, server_hostname="localhost") as secured,
        ):
            said = secured.recv(10)
        answering.join()

    assert said == b"hello"


def greet(listener: socket.socket, context: ssl.SSLContext) -> None:
    """Be a server for one connection."""
    connection, _ = listener.accept()
    with context.wrap_socket(connection, server_side=True) as secured:
        secured.sendall(b"hello")


@pytest.mark.slow
def test_a_keystore_with_another_password_is_refused(pem: PemFiles, tmp_path: Path) -> None:
    """What keytool says is told, and no password is in it."""
    store = Keystore(path=tmp_path / "keys.p12", password="wrong password")
    store.path.write_bytes(b"no keystore")

    with pytest.raises(ConfigError, match=r"keys\.p12 cannot be read") as caught:
        server_context(store)
    assert "wrong password" not in str(caught.value)


def test_the_key_of_another_certificate_is_refused(pem: PemFiles, tmp_path: Path) -> None:
    """Before Spark starts."""
    (tmp_path / "other").mkdir()
    other = write_pem(tmp_path / "other")
    mixed = PemFiles(certificate=pem.certificate, key=other.key)

    with pytest.raises(ConfigError, match=r"other/server.key and .*server.pem do not fit"):
        server_context(mixed)


@pytest.mark.parametrize(
    ("which", "message"), [("certificate", "is no certificate"), ("key", "is no private key")]
)
def test_a_file_that_is_something_else_is_refused(pem: PemFiles, which: str, message: str) -> None:
    """With what is wanted in the hint."""
    path = pem.certificate if which == "certificate" else pem.key
    path.write_text("-----BEGIN NONSENSE-----\n", encoding="utf-8")

    with pytest.raises(ConfigError, match=message) as caught:
        server_context(pem)
    assert "PEM" in str(caught.value.hint)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """Before Spark starts."""
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        server_context(Keystore(path=tmp_path / "none", password="x"))
