"""Factories for the providers that are configured in the settings.

This module is imported only if a provider is configured: its imports (elliptic curves, RSA, HTTP/2) take
4 MiB of memory and a tenth of the server's start time.
"""

from functools import partial

from bridge_server.push.providers.apns import ApnsProvider
from bridge_server.push.providers.credentials import ApnsSettings, ServiceAccount
from bridge_server.push.providers.fcm import ENDPOINT, FcmProvider, FcmSettings
from bridge_server.push.providers.provider import ProviderOf
from bridge_server.push.providers.webpush import WebPushProvider, WebPushSettings


def fcm(
    credentials: str, endpoint: str | None, token_endpoint: str | None, timeout_seconds: float
) -> ProviderOf:
    """FCM with a service account; `credentials` is the text of its JSON file. Raises ValueError."""
    account = ServiceAccount.parse(credentials)
    return partial(FcmProvider, FcmSettings(account, endpoint or ENDPOINT, token_endpoint, timeout_seconds))


def apns(
    *,
    key: str,
    key_id: str,
    team_id: str,
    topic: str,
    environment: str,
    endpoint: str | None,
    ca_file: str | None,
    timeout_seconds: float,
) -> ProviderOf:
    """APNs for one app, with the signing key of its team. Raises ValueError."""
    settings = ApnsSettings(key, key_id, team_id, topic, environment, endpoint, ca_file, timeout_seconds)
    return partial(ApnsProvider, settings)


def webpush(
    private_key: str, subject: str, timeout_seconds: float, allow_private: bool, user_agent: str
) -> ProviderOf:
    """Web Push with a VAPID key pair. The returned factory raises ValueError."""
    settings = WebPushSettings(private_key, subject, timeout_seconds, allow_private, user_agent)
    return partial(WebPushProvider, settings)
