"""Keys for TLS: a keystore as it is, one made of PEM files, and files that will not do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from penstock.catalog.errors import ConfigError
from penstock.sql.serve.keystore import as_keystore
from penstock.sql.serve.settings import Keystore, PemFiles


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


def test_pem_files_become_a_keystore_for_a_while(pem: PemFiles) -> None:
    """Readable by its owner, encrypted, and gone afterwards."""
    with as_keystore(pem) as made:
        assert made is not None
        _key, certificate, _chain = pkcs12.load_key_and_certificates(
            made.path.read_bytes(), made.password.encode()
        )
        assert certificate is not None
        subject, mode = certificate.subject.rfc4514_string(), made.path.stat().st_mode & 0o777

    assert (subject, mode) == ("CN=localhost", 0o600)
    assert not made.path.exists()


def test_a_keystore_is_taken_as_it_is(tmp_path: Path) -> None:
    """Java reads it; here it only has to be there."""
    given = Keystore(path=tmp_path / "keys.p12", password="hidden")
    given.path.touch()
    with as_keystore(given) as taken, as_keystore(None) as nothing:
        assert taken == given
        assert nothing is None


def test_the_key_of_another_certificate_is_refused(pem: PemFiles, tmp_path: Path) -> None:
    """Java would only find out when a client connects."""
    (tmp_path / "other").mkdir()
    other = write_pem(tmp_path / "other")
    mixed = PemFiles(certificate=pem.certificate, key=other.key)

    with pytest.raises(ConfigError, match=r"other/server.key and .*server.pem do not fit"):
        as_keystore(mixed).__enter__()


@pytest.mark.parametrize(
    ("which", "message"), [("certificate", "is no certificate"), ("key", "is no private key")]
)
def test_a_file_that_is_something_else_is_refused(pem: PemFiles, which: str, message: str) -> None:
    """With what is wanted in the hint."""
    path = pem.certificate if which == "certificate" else pem.key
    path.write_text("-----BEGIN NONSENSE-----\n", encoding="utf-8")

    with pytest.raises(ConfigError, match=message) as caught:
        as_keystore(pem).__enter__()
    assert "PEM" in str(caught.value.hint)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """Before Spark starts."""
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        as_keystore(Keystore(path=tmp_path / "none", password="x")).__enter__()
