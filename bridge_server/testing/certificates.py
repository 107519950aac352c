"""A self-signed certificate for a local server."""

import secrets
import ssl
from base64 import encodebytes
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path

from Crypto.Hash import SHA256
from Crypto.PublicKey import ECC
from Crypto.Signature import DSS

from bridge_server.testing import der

_ECDSA_WITH_SHA256 = der.sequence(der.object_id("1.2.840.10045.4.3.2"))
_COMMON_NAME = "2.5.4.3"
_SUBJECT_KEY_ID, _KEY_USAGE, _ALTERNATIVE_NAME, _CONSTRAINTS = (
    f"2.5.29.{number}" for number in (14, 15, 17, 19)
)
_SIGNS_AND_CERTIFIES = der.bits(b"\x84", unused=2)
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
    name = der.sequence(der.set_of_one(der.sequence(der.object_id(_COMMON_NAME), der.text(address))))
    now, day = datetime.now(UTC), timedelta(days=1)
    contents = der.sequence(
        der.tagged(_EXPLICIT_VERSION, der.integer(_VERSION_3)),
        der.integer(secrets.randbits(128)),
        _ECDSA_WITH_SHA256,
        name,
        der.sequence(*(der.time(f"{moment:%y%m%d%H%M%S}Z") for moment in (now - day, now + day))),
        name,
        public_key,
        der.tagged(_EXPLICIT_EXTENSIONS, der.sequence(*_extensions(public_key, address))),
    )
    signature = DSS.new(key, "fips-186-3", "der").sign(SHA256.new(contents))
    return der.sequence(contents, _ECDSA_WITH_SHA256, der.bits(signature))


def _extensions(public_key: bytes, address: str) -> tuple[bytes, ...]:
    """The extensions: key id, usage, IP address, and a chain length of 0."""
    key_id = sha256(public_key).digest()[:20]
    names = der.sequence(der.tagged(_IP_ADDRESS, ip_address(address).packed))
    return (
        _extension(_SUBJECT_KEY_ID, der.octets(key_id)),
        _extension(_KEY_USAGE, _SIGNS_AND_CERTIFIES, der.TRUE),
        _extension(_ALTERNATIVE_NAME, names),
        _extension(_CONSTRAINTS, der.sequence(der.TRUE, der.integer(0)), der.TRUE),
    )


def _extension(kind: str, value: bytes, critical: bytes = b"") -> bytes:
    return der.sequence(der.object_id(kind), critical, der.octets(value))


def _public_key(key: ECC.EccKey) -> bytes:
    exported = key.public_key().export_key(format="DER")
    assert isinstance(exported, bytes)
    return exported


def _pem(certificate: bytes) -> str:
    lines = encodebytes(certificate).decode("ascii")
    return f"-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n"
