"""Credentials of push services and their checks. A ValueError that they raise quotes nothing that is secret.

This module is imported when one of the services is on: elliptic curves and RSA take 4 MiB of memory.
"""

import re
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import orjson
from Crypto.PublicKey import ECC, RSA
from Crypto.PublicKey.ECC import EccKey
from Crypto.PublicKey.RSA import RsaKey
from yarl import URL

from bridge_server.kernel.values import dataclass
from bridge_server.push.keys import checked_subject, read_private_key

_P8_FILE = "it is the AuthKey_….p8 file of the Apple developer account, with its first and last line"

_APNS_ENDPOINTS = {
    "production": "https://api.push.apple.com",
    "sandbox": "https://api.sandbox.push.apple.com",
}

_APNS_ID = re.compile(r"[A-Z0-9]{10}")
_BUNDLE_ID = re.compile(r"[A-Za-z0-9.-]{1,255}")

_ACCOUNT_FIELDS = ("type", "project_id", "private_key", "client_email", "token_uri")
# Project ids have 6 to 30 characters; some old ones begin with a domain, as in example.com:project.
_PROJECT_ID = re.compile(r"[a-z0-9][a-z0-9.:-]{2,99}")
_EMAIL = re.compile(r"[^\s@]{1,128}@[^\s@]{1,128}")
_LEAST_KEY_BITS = 2_048
_HOW_TO_MAKE_THE_FILE = (
    "make one in the Firebase console: project settings, service accounts, generate new private key"
)


def check_fcm(credentials: str) -> None:
    """Check the text of a service account's JSON file."""
    ServiceAccount.parse(credentials)


def check_apns(
    key: str, key_id: str, team_id: str, topic: str, endpoint: str | None, ca_file: Path | None
) -> None:
    """Check the text of a .p8 file, and what belongs to its key."""
    ca_path = None if ca_file is None else str(ca_file)
    ApnsSettings(key, key_id, team_id, topic, endpoint=endpoint, ca_file=ca_path)


def check_vapid_key(private_key: str) -> None:
    """Check a private key of Web Push."""
    read_private_key(private_key)


def check_vapid_subject(subject: str) -> None:
    """Check the address that push services write to."""
    checked_subject(subject)


@dataclass(frozen=True, slots=True)
class ApnsSettings:
    """Settings of APNs. `key` is the text of the .p8 file, `topic` the app's bundle id.

    For tests against a local server, `endpoint` replaces the environment's URL, and `ca_file` replaces the
    system's certificates. `timeout_seconds` covers a whole attempt.

    Raises ValueError, which names every fault without quoting the key.
    """

    key: str = field(repr=False)
    key_id: str
    team_id: str
    topic: str
    environment: str = "production"
    endpoint: str | None = None
    ca_file: str | None = None
    timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        faults = [fault for fault in self._faults() if fault is not None]
        if faults:
            raise ValueError(f"the APNs settings are not usable: {'; '.join(faults)}")

    @property
    def url(self) -> URL:
        """Scheme, host and port of the service."""
        return URL(self.endpoint or _APNS_ENDPOINTS[self.environment])

    def _faults(self) -> list[str | None]:
        return [
            _apns_key_fault(self.key),
            _apns_id_fault(
                "apns_key_id", self.key_id, "it is part of the name of the .p8 file: AuthKey_….p8"
            ),
            _apns_id_fault(
                "apns_team_id", self.team_id, "it is on the membership page of the Apple developer account"
            ),
            _apns_topic_fault(self.topic),
            None if self.environment in _APNS_ENDPOINTS else "apns_environment must be production or sandbox",
            None if self.endpoint is None else _apns_endpoint_fault(self.endpoint),
            None if self.ca_file is None or Path(self.ca_file).is_file() else "apns_ca_file names no file",
            None if self.timeout_seconds > 0 else "timeout_seconds must be more than 0",
        ]


def _apns_key_fault(pem: str) -> str | None:
    try:
        signing_key(pem)
    except ValueError as error:
        return str(error)
    return None


def signing_key(pem: str) -> EccKey:
    """The private key in the text of a .p8 file. Raises ValueError, whose text does not quote the key."""
    if "-----BEGIN" not in pem:
        raise ValueError(
            f"the key must be a PEM text that begins with -----BEGIN PRIVATE KEY-----: {_P8_FILE}"
        )
    try:
        key = ECC.import_key(pem)
    except (ValueError, IndexError, TypeError):
        raise ValueError(f"the key is no elliptic curve key in PEM: {_P8_FILE}") from None
    if not key.has_private():
        raise ValueError(f"the key is a public one; the private one is needed: {_P8_FILE}")
    if key.curve != "NIST P-256":
        raise ValueError(f"the key is on the curve {key.curve}, and APNs takes P-256: {_P8_FILE}")
    return key


def _apns_id_fault(name: str, value: str, where: str) -> str | None:
    if _APNS_ID.fullmatch(value):
        return None
    return f"{name} must be 10 upper-case letters and digits: {where}"


def _apns_topic_fault(value: str) -> str | None:
    return (
        None
        if _BUNDLE_ID.fullmatch(value)
        else "apns_topic must be the app's bundle id, such as com.example.wallet"
    )


def _apns_endpoint_fault(text: str) -> str | None:
    fault = "apns_endpoint must be an https URL without a path, such as https://127.0.0.1:8443"
    try:
        url = URL(text)
    except ValueError:
        return fault
    sound = url.scheme == "https" and url.raw_host and url.raw_path == "/" and not url.raw_query_string
    return None if sound else fault


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The account by which this server authenticates to Google; the Firebase console makes its key file.
    `repr` does not show its key.
    """

    project_id: str
    client_email: str
    token_uri: str
    private_key_id: str | None
    private_key: RsaKey = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Read an account from the JSON of its key file. Raises ValueError, which names every fault."""
        document = _document(text)
        faults = [
            fault
            for name in _ACCOUNT_FIELDS
            if (fault := _ACCOUNT_FAULTS[name](document.get(name))) is not None
        ]
        if faults:
            raise ValueError(f"the service account file is not usable: {'; '.join(faults)}")
        key_id = document.get("private_key_id")
        return cls(
            document["project_id"],
            document["client_email"],
            document["token_uri"],
            key_id if isinstance(key_id, str) and key_id else None,
            _rsa_key(document["private_key"]),
        )


@lru_cache(maxsize=1)
def _rsa_key(pem: str) -> RsaKey:
    """The key of a PEM text. It is kept: a start reads the text four times, and proves the key for 30 ms."""
    return RSA.import_key(pem)


def _document(text: str | bytes) -> Mapping[str, Any]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise ValueError(f"the service account file is not JSON; {_HOW_TO_MAKE_THE_FILE}") from None
    if not isinstance(document, dict):
        raise ValueError(f"the service account file must hold a JSON object; {_HOW_TO_MAKE_THE_FILE}")
    return document


def _type_fault(value: object) -> str | None:
    if value == "service_account":
        return None
    hint = " (google-services.json is the app's file, not the server's)" if value is None else ""
    return f'type must be "service_account"{hint}; {_HOW_TO_MAKE_THE_FILE}'


def _project_fault(value: object) -> str | None:
    sound = isinstance(value, str) and _PROJECT_ID.fullmatch(value)
    return None if sound else "project_id must be the id of a Google Cloud project, such as my-app-12345"


def _email_fault(value: object) -> str | None:
    sound = isinstance(value, str) and _EMAIL.fullmatch(value)
    return None if sound else "client_email must be an address, as name@project.iam.gserviceaccount.com"


def _token_uri_fault(value: object) -> str | None:
    text = "token_uri must be an absolute http(s) URL, usually https://oauth2.googleapis.com/token"
    if not isinstance(value, str):
        return text
    try:
        url = URL(value)
    except ValueError:
        return text
    return None if url.scheme in {"http", "https"} and url.raw_host else text


def _private_key_fault(value: object) -> str | None:
    if not isinstance(value, str) or "-----BEGIN" not in value:
        return "private_key must be a PEM text that begins with -----BEGIN PRIVATE KEY-----"
    if "\\n" in value:
        return r"private_key has \n spelled out twice: keep the line breaks as the file had them"
    try:
        key = _rsa_key(value)
    except (ValueError, IndexError, TypeError):
        return "private_key is no RSA key in PEM: copy it whole, with its first and last line, unencrypted"
    if not key.has_private():
        return "private_key holds a public key; the private one is needed"
    if key.size_in_bits() < _LEAST_KEY_BITS:
        return f"private_key has {key.size_in_bits()} bits; at least {_LEAST_KEY_BITS} are needed"
    return None


_ACCOUNT_FAULTS = {
    "type": _type_fault,
    "project_id": _project_fault,
    "private_key": _private_key_fault,
    "client_email": _email_fault,
    "token_uri": _token_uri_fault,
}
