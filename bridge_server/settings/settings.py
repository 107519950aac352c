"""All settings in one flat model, with the names that the environment, the TOML file and the flags use."""

from typing import Any

from pydantic import model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bridge_server.settings.admin import AdminSettings
from bridge_server.settings.console import ConsoleSettings
from bridge_server.settings.inbox import InboxSettings
from bridge_server.settings.notify import NotifySettings
from bridge_server.settings.outbox import OutboxSettings
from bridge_server.settings.pubsub import PubSubSettings
from bridge_server.settings.push import PushSettings
from bridge_server.settings.relay import RelaySettings
from bridge_server.settings.reporting import ReportingSettings
from bridge_server.settings.server import ServerSettings
from bridge_server.settings.storage import StorageSettings
from bridge_server.settings.testmode import TestModeSettings
from bridge_server.settings.wallet import WalletSettings
from bridge_server.settings.web import WebSettings

ENVIRONMENT_PREFIX = "BRIDGE_"
NOT_SET = "none"
"""The spelling of an optional setting without a value, and of an empty list."""


# pydantic lists the fields of the last model first: read from the bottom, this is the order in the table.
class Settings(
    TestModeSettings,
    OutboxSettings,
    WalletSettings,
    PushSettings,
    InboxSettings,
    ConsoleSettings,
    AdminSettings,
    NotifySettings,
    PubSubSettings,
    RelaySettings,
    WebSettings,
    ReportingSettings,
    StorageSettings,
    ServerSettings,
    BaseSettings,
):
    """The settings of one server. Times are in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, extra="forbid", frozen=True, defer_build=False
    )

    @model_validator(mode="before")
    @classmethod
    def _none_is_a_value(cls, values: Any) -> Any:
        """Read `none`, in any source, as no value or an empty list.

        `config check` prints such values as `none`.
        """
        return {name: _read_none(name, value) for name, value in values.items()}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only the arguments: `load_settings` merges the sources, and records which one won."""
        return (init_settings,)


def _read_none(name: str, value: Any) -> Any:
    field = Settings.model_fields.get(name)
    if field is None or not isinstance(value, str) or value.strip().lower() != NOT_SET:
        return value
    if isinstance(field.default, tuple):
        return ()
    return field.default if field.default in (None, "") else value
