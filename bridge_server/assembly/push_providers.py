"""The push services that the settings turn on, as providers by their names."""

from importlib import import_module
from typing import Any

from bridge_server.kernel.clock import Clock
from bridge_server.push.providers.provider import Provider, ProviderOf
from bridge_server.settings.checks import secret_of, text_of
from bridge_server.settings.settings import Settings
from bridge_server.version import USER_AGENT


def push_providers(settings: Settings, clock: Clock) -> dict[str, Provider]:
    """The configured providers. Raises ValueError when their credentials cannot be used."""
    configured = {"fcm": _fcm(settings), "apns": _apns(settings), "webpush": _webpush(settings)}
    return {name: provider(clock) for name, provider in configured.items() if provider is not None}


def _fcm(settings: Settings) -> ProviderOf | None:
    if settings.fcm_credentials is None:
        return None
    fcm: ProviderOf = _services().fcm(
        text_of(settings.fcm_credentials),
        settings.fcm_endpoint,
        settings.fcm_token_endpoint,
        settings.push_timeout,
    )
    return fcm


def _apns(settings: Settings) -> ProviderOf | None:
    if settings.apns_key is None:
        return None
    apns: ProviderOf = _services().apns(
        key=text_of(settings.apns_key),
        key_id=settings.apns_key_id,
        team_id=settings.apns_team_id,
        topic=settings.apns_topic,
        environment=settings.apns_environment,
        endpoint=settings.apns_endpoint,
        ca_file=None if settings.apns_ca_file is None else str(settings.apns_ca_file),
        timeout_seconds=settings.push_timeout,
    )
    return apns


def _webpush(settings: Settings) -> ProviderOf | None:
    key = secret_of(settings.vapid_private_key)
    if key is None:
        return None
    webpush: ProviderOf = _services().webpush(
        key, settings.vapid_subject, settings.push_timeout, settings.allow_private_webhooks, USER_AGENT
    )
    return webpush


def _services() -> Any:
    """The module of all providers, which is loaded only when one of them is on."""
    return import_module("bridge_server.push.providers.configured")
