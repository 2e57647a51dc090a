"""Certificates for tests, signed by themselves, and their keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def certificate(folder: Path, *names: str) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 and these names, and its key; give both files."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "penstock")])
    known = [x509.DNSName(name) for name in names] + [x509.IPAddress(ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(known), critical=False)
        .sign(key, SHA256())
    )
    files = folder / "server.pem", folder / "server.key"
    files[0].write_bytes(made.public_bytes(Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    return files
