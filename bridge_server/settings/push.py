"""Settings of the push server and of the push services."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, Field, PositiveInt, model_validator

from bridge_server.settings.checks import fault_of, secret_of, text_of
from bridge_server.settings.types import Burst, Duration, File, Rate, Token, Url

_PARTS_OF_A_KEY = {
    "apns_key": ("apns_key_id", "apns_team_id", "apns_topic"),
    "vapid_private_key": ("vapid_subject",),
}

_Check: TypeAlias = tuple[str, Callable[[], object]]
"""The name of a setting, and a function that raises ValueError when its value cannot be used."""


class PushSettings(BaseModel, defer_build=True):
    """Limits of registrations, and the credentials of push services."""

    push_body_limit: PositiveInt = Field(
        64 * 1024, description="The largest body that the push server accepts."
    )
    push_timeout: Duration = Field(10, description="How long a push provider may take to answer.")
    push_log: bool = Field(True, description="Write pushes to devices of type log to the server's log.")
    clients_per_minute: Rate = Field(
        60, description="New push registrations per client address, in the long run."
    )
    clients_burst: Burst = Field(120, description="New push registrations per client address, at once.")
    fcm_credentials: File | None = Field(None, description="FCM: the service account's JSON file.")
    fcm_endpoint: Url | None = Field(None, description="FCM: another server than Google's, for tests.")
    fcm_token_endpoint: Url | None = Field(
        None, description="FCM: another token endpoint than the account's own, for tests."
    )
    apns_key: File | None = Field(None, description="APNs: the .p8 file of the signing key.")
    apns_key_id: str = Field("", description="APNs: the key's id, 10 characters.")
    apns_team_id: str = Field("", description="APNs: the team's id, 10 characters.")
    apns_topic: str = Field("", description="APNs: the app's bundle id.")
    apns_environment: Literal["production", "sandbox"] = Field(
        "production", description="APNs: which of Apple's services."
    )
    apns_endpoint: Url | None = Field(None, description="APNs: another server than Apple's, for tests.")
    apns_ca_file: File | None = Field(
        None, description="APNs: the CA certificates for apns_endpoint, for tests."
    )
    vapid_private_key: Token | None = Field(
        None, description="Web Push: the private key that `bridge-server keys vapid` prints."
    )
    vapid_subject: str = Field(
        "", description="Web Push: the contact for push services, mailto:you@example.org or an https URL."
    )

    @model_validator(mode="after")
    def _push_credentials_are_well_formed(self) -> Self:
        checks = (*self._fcm_checks(), *self._apns_checks(), *self._vapid_checks())
        faults = [fault for name, check in checks if (fault := fault_of(name, check)) is not None]
        for key, others in _PARTS_OF_A_KEY.items():
            if getattr(self, key) is None:
                faults += [f"{name}: is set, but {key} is not" for name in others if getattr(self, name)]
        if faults:
            raise ValueError("\n".join(faults))
        return self

    def _fcm_checks(self) -> Iterator[_Check]:
        if self.fcm_credentials is not None:
            yield "fcm_credentials", lambda: _credentials().check_fcm(text_of(self.fcm_credentials))

    def _apns_checks(self) -> Iterator[_Check]:
        if self.apns_key is not None:
            yield (
                "apns_key",
                lambda: _credentials().check_apns(
                    text_of(self.apns_key),
                    self.apns_key_id,
                    self.apns_team_id,
                    self.apns_topic,
                    self.apns_endpoint,
                    self.apns_ca_file,
                ),
            )

    def _vapid_checks(self) -> Iterator[_Check]:
        if self.vapid_private_key is not None:
            key = secret_of(self.vapid_private_key)
            yield "vapid_private_key", lambda: _credentials().check_vapid_key(key)
            yield "vapid_subject", lambda: _credentials().check_vapid_subject(self.vapid_subject)


def _credentials() -> Any:
    """The checks of credentials: their module loads cryptography that a server without push does not need."""
    return import_module("bridge_server.push.providers.credentials")
