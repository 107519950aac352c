"""Credentials of local push services and of TLS: certificates, keys, and the check of JSON Web Tokens."""

import json
import secrets
import ssl
from base64 import encodebytes, urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from Crypto.Hash import SHA256
from Crypto.PublicKey import ECC
from Crypto.PublicKey.ECC import EccKey
from Crypto.PublicKey.RSA import RsaKey
from Crypto.Signature import DSS, pkcs1_15
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# The part of DER (X.690) that writing a certificate needs.

_INTEGER, _BITS, _OCTETS, _OBJECT_ID, _TEXT, _TIME = 0x02, 0x03, 0x04, 0x06, 0x0C, 0x17
_SEQUENCE, _SET = 0x30, 0x31

TRUE = b"\x01\x01\xff"


def tagged(tag: int, content: bytes) -> bytes:
    """The content with its tag and its length."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


def sequence(*parts: bytes) -> bytes:
    """A SEQUENCE of the parts."""
    return tagged(_SEQUENCE, b"".join(parts))


def set_of_one(part: bytes) -> bytes:
    """A SET with one member."""
    return tagged(_SET, part)


def integer(value: int) -> bytes:
    """A non-negative INTEGER."""
    return tagged(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1))


def bits(content: bytes, unused: int = 0) -> bytes:
    """A BIT STRING, of which the last `unused` bits do not count."""
    return tagged(_BITS, bytes((unused,)) + content)


def octets(content: bytes) -> bytes:
    """An OCTET STRING."""
    return tagged(_OCTETS, content)


def text(content: str) -> bytes:
    """A UTF8String."""
    return tagged(_TEXT, content.encode())


def time(content: str) -> bytes:
    """A UTCTime before 2050, as YYMMDDhhmmssZ."""
    return tagged(_TIME, content.encode())


def object_id(dotted: str) -> bytes:
    """An OBJECT IDENTIFIER, such as 2.5.4.3."""
    first, second, *others = map(int, dotted.split("."))
    return tagged(_OBJECT_ID, b"".join(map(_base128, (40 * first + second, *others))))


def _base128(number: int) -> bytes:
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(0x80 | number & 0x7F)
    return bytes(reversed(digits))


_ECDSA_WITH_SHA256 = sequence(object_id("1.2.840.10045.4.3.2"))
_COMMON_NAME = "2.5.4.3"
_SUBJECT_KEY_ID, _KEY_USAGE, _ALTERNATIVE_NAME, _CONSTRAINTS = (
    f"2.5.29.{number}" for number in (14, 15, 17, 19)
)
_SIGNS_AND_CERTIFIES = bits(b"\x84", unused=2)
_EXPLICIT_VERSION, _EXPLICIT_EXTENSIONS, _IP_ADDRESS = 0xA0, 0xA3, 0x87
_VERSION_3 = 2


@dataclass(frozen=True, slots=True)
class ThrowAwayCertificate:
    """The server's TLS context, and the file of the certificate that a client has to trust."""

    server: ssl.SSLContext
    ca_file: Path


def throw_away_certificate(folder: Path, address: str = "127.0.0.1") -> ThrowAwayCertificate:
    """Make a certificate for the IP address, valid for a day; its files stay in the folder."""
    key = ECC.generate(curve="P-256")
    ca_file, key_file = folder / "certificate.pem", folder / "key.pem"
    ca_file.write_text(_pem(_certificate(key, address)), "ascii")
    key_file.write_text(str(key.export_key(format="PEM", use_pkcs8=True)), "ascii")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca_file, key_file)
    return ThrowAwayCertificate(context, ca_file)


def _certificate(key: ECC.EccKey, address: str) -> bytes:
    """The certificate (RFC 5280) in DER."""
    public_key = _public_key(key)
    name = sequence(set_of_one(sequence(object_id(_COMMON_NAME), text(address))))
    now, day = datetime.now(UTC), timedelta(days=1)
    contents = sequence(
        tagged(_EXPLICIT_VERSION, integer(_VERSION_3)),
        integer(secrets.randbits(128)),
        _ECDSA_WITH_SHA256,
        name,
        sequence(*(time(f"{moment:%y%m%d%H%M%S}Z") for moment in (now - day, now + day))),
        name,
        public_key,
        tagged(_EXPLICIT_EXTENSIONS, sequence(*_extensions(public_key, address))),
    )
    signature = DSS.new(key, "fips-186-3", "der").sign(SHA256.new(contents))
    return sequence(contents, _ECDSA_WITH_SHA256, bits(signature))


def _extensions(public_key: bytes, address: str) -> tuple[bytes, ...]:
    """The extensions: key id, usage, IP address, and a chain length of 0."""
    key_id = sha256(public_key).digest()[:20]
    names = sequence(tagged(_IP_ADDRESS, ip_address(address).packed))
    return (
        _extension(_SUBJECT_KEY_ID, octets(key_id)),
        _extension(_KEY_USAGE, _SIGNS_AND_CERTIFIES, TRUE),
        _extension(_ALTERNATIVE_NAME, names),
        _extension(_CONSTRAINTS, sequence(TRUE, integer(0)), TRUE),
    )


def _extension(kind: str, value: bytes, critical: bytes = b"") -> bytes:
    return sequence(object_id(kind), critical, octets(value))


def _public_key(key: ECC.EccKey) -> bytes:
    exported = key.public_key().export_key(format="DER")
    assert isinstance(exported, bytes)
    return exported


def _pem(certificate: bytes) -> str:
    lines = encodebytes(certificate).decode("ascii")
    return f"-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n"


# Verification of JSON Web Tokens, as push services do it.

PublicKey: TypeAlias = RsaKey | EccKey


def verified(token: str, key: PublicKey) -> tuple[dict[str, Any], dict[str, Any]]:
    """Verify a token with a public key; returns its header and claims. Raises ValueError."""
    algorithm = "RS256" if isinstance(key, RsaKey) else "ES256"
    return checked(token, algorithm, lambda text, signature: _verify(text, signature, key))


def checked(
    token: str, algorithm: str, verify: Callable[[bytes, bytes], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a token whose signature `verify` accepts. Raises ValueError."""
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("a token has three parts")
    header, claims, signature = (_bytes_of(part) for part in parts)
    verify(f"{parts[0]}.{parts[1]}".encode(), signature)
    fields = _object_of(header), _object_of(claims)
    if fields[0].get("alg") != algorithm:
        raise ValueError(f"alg must be {algorithm}")
    return fields


def _verify(text: bytes, signature: bytes, key: PublicKey) -> None:
    try:
        if isinstance(key, RsaKey):
            pkcs1_15.new(key).verify(SHA256.new(text), signature)
        else:
            DSS.new(key, "fips-186-3", "binary").verify(SHA256.new(text), signature)
    except ValueError:
        raise ValueError("the signature does not fit") from None


def _bytes_of(part: str) -> bytes:
    if "=" in part:
        raise ValueError("base64url in tokens has no padding")
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _object_of(text: bytes) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("a JSON object is needed")
    return value


# Certificates for servers on this machine, made on the spot.


def self_signed(address: str, written_to: Path | None = None) -> ssl.SSLContext:
    """A server's TLS context with a certificate for the address that only it vouches for itself.

    `written_to` is a file for the certificate, as clients are given it that trust it.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    if written_to is not None:
        written_to.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "both.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context.load_cert_chain(file)
    return context
