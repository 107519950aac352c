"""Settings of APNs: the signing key, its ids, the app and the environment."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from yarl import URL

from bridge_server.push.providers.provider_token import signing_key

ENDPOINTS = {
    "production": "https://api.push.apple.com",
    "sandbox": "https://api.sandbox.push.apple.com",
}

_TEN_CHARACTERS = re.compile(r"[A-Z0-9]{10}")
_BUNDLE_ID = re.compile(r"[A-Za-z0-9.-]{1,255}")


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
        return URL(self.endpoint or ENDPOINTS[self.environment])

    def _faults(self) -> list[str | None]:
        return [
            _key_fault(self.key),
            _id_fault("apns_key_id", self.key_id, "it is part of the name of the .p8 file: AuthKey_….p8"),
            _id_fault(
                "apns_team_id", self.team_id, "it is on the membership page of the Apple developer account"
            ),
            _topic_fault(self.topic),
            None if self.environment in ENDPOINTS else "apns_environment must be production or sandbox",
            None if self.endpoint is None else _endpoint_fault(self.endpoint),
            None if self.ca_file is None or Path(self.ca_file).is_file() else "apns_ca_file names no file",
            None if self.timeout_seconds > 0 else "timeout_seconds must be more than 0",
        ]


def _key_fault(pem: str) -> str | None:
    try:
        signing_key(pem)
    except ValueError as error:
        return str(error)
    return None


def _id_fault(name: str, value: str, where: str) -> str | None:
    if _TEN_CHARACTERS.fullmatch(value):
        return None
    return f"{name} must be 10 upper-case letters and digits: {where}"


def _topic_fault(value: str) -> str | None:
    return (
        None
        if _BUNDLE_ID.fullmatch(value)
        else "apns_topic must be the app's bundle id, such as com.example.wallet"
    )


def _endpoint_fault(text: str) -> str | None:
    fault = "apns_endpoint must be an https URL without a path, such as https://127.0.0.1:8443"
    try:
        url = URL(text)
    except ValueError:
        return fault
    sound = url.scheme == "https" and url.raw_host and url.raw_path == "/" and not url.raw_query_string
    return None if sound else fault
