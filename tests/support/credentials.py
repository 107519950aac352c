"""Credentials of local push services and of TLS: certificates, keys, and the check of JSON Web Tokens."""

import json
import ssl
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from Crypto.Hash import SHA256
from Crypto.PublicKey.ECC import EccKey
from Crypto.PublicKey.RSA import RsaKey
from Crypto.Signature import DSS, pkcs1_15
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class ThrowAwayCertificate:
    """The server's TLS context, and the file of the certificate that a client has to trust."""

    server: ssl.SSLContext
    ca_file: Path


def throw_away_certificate(folder: Path, address: str = "127.0.0.1") -> ThrowAwayCertificate:
    """Make a certificate for the IP address, valid for a day; its files stay in the folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
    now, day = datetime.now(UTC), timedelta(days=1)
    public, number = key.public_key(), x509.random_serial_number()
    certificate = (
        x509.CertificateBuilder(name, name, public, number, now - day, now + day)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    ca_file, key_file = folder / "certificate.pem", folder / "key.pem"
    ca_file.write_bytes(certificate.public_bytes(Encoding.PEM))
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca_file, key_file)
    return ThrowAwayCertificate(context, ca_file)


def self_signed(address: str) -> ssl.SSLContext:
    """A server's TLS context with a certificate for the address that nobody trusts."""
    with TemporaryDirectory() as folder:
        return throw_away_certificate(Path(folder), address).server


def verified(token: str, key: RsaKey | EccKey) -> tuple[dict[str, Any], dict[str, Any]]:
    """Verify a token with a public key; returns its header and claims. Raises ValueError."""

    def verify(text: bytes, signature: bytes) -> None:
        if isinstance(key, RsaKey):
            pkcs1_15.new(key).verify(SHA256.new(text), signature)
        else:
            DSS.new(key, "fips-186-3", "binary").verify(SHA256.new(text), signature)

    return checked(token, "RS256" if isinstance(key, RsaKey) else "ES256", verify)


def checked(
    token: str, algorithm: str, verify: Callable[[bytes, bytes], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a token whose signature `verify` accepts. Raises ValueError."""
    parts = token.split(".")
    if len(parts) != 3 or "=" in token:
        raise ValueError("a token has three parts, and base64url in it no padding")
    header, claims, signature = (urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in parts)
    verify(f"{parts[0]}.{parts[1]}".encode(), signature)
    fields: tuple[dict[str, Any], dict[str, Any]] = json.loads(header), json.loads(claims)
    if fields[0]["alg"] != algorithm:
        raise ValueError(f"alg must be {algorithm}")
    return fields
