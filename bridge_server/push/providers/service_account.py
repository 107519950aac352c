"""The key file of a Google service account, which the Firebase console generates."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import orjson
from Crypto.PublicKey import RSA
from Crypto.PublicKey.RSA import RsaKey
from yarl import URL

_FIELDS = ("type", "project_id", "private_key", "client_email", "token_uri")
# Project ids have 6 to 30 characters; some old ones begin with a domain, as in example.com:project.
_PROJECT_ID = re.compile(r"[a-z0-9][a-z0-9.:-]{2,99}")
_EMAIL = re.compile(r"[^\s@]{1,128}@[^\s@]{1,128}")
_LEAST_KEY_BITS = 2_048
_WHERE = "make one in the Firebase console: project settings, service accounts, generate new private key"


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The account by which this server authenticates to Google. `repr` does not show its key."""

    project_id: str
    client_email: str
    token_uri: str
    private_key_id: str | None
    private_key: RsaKey = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Read an account from the JSON of its key file. Raises ValueError, which names every fault."""
        document = _document(text)
        faults = [fault for name in _FIELDS if (fault := _FAULTS[name](document.get(name))) is not None]
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
        raise ValueError(f"the service account file is not JSON; {_WHERE}") from None
    if not isinstance(document, dict):
        raise ValueError(f"the service account file must hold a JSON object; {_WHERE}")
    return document


def _type_fault(value: object) -> str | None:
    if value == "service_account":
        return None
    hint = " (google-services.json is the app's file, not the server's)" if value is None else ""
    return f'type must be "service_account"{hint}; {_WHERE}'


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


def _key_fault(value: object) -> str | None:
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


_FAULTS = {
    "type": _type_fault,
    "project_id": _project_fault,
    "private_key": _key_fault,
    "client_email": _email_fault,
    "token_uri": _token_uri_fault,
}
