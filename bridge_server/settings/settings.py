"""Every knob: typed, documented, and where its value came from. Flag > environment > TOML file > default."""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    Field,
    PositiveInt,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from bridge_server.ethereum.mnemonic import checked_mnemonic
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.push.providers.provider import ProviderOf
from bridge_server.settings.types import (
    DAY,
    DEVELOPMENT_MNEMONIC,
    HOUR,
    Burst,
    ChainId,
    Directory,
    Duration,
    File,
    HostNames,
    Networks,
    NodeUrl,
    Origins,
    Port,
    ProjectIds,
    Rate,
    Seconds,
    SigningSecret,
    Token,
    Tokens,
    Url,
    is_loopback,
    networks,
)
from bridge_server.version import USER_AGENT
from bridge_server.wallet.private_keys import development_keys, read_private_keys

ENVIRONMENT_PREFIX = "BRIDGE_"
CONFIG_VARIABLE = "BRIDGE_CONFIG"
NOT_SET = "none"
"""How an optional setting is spelled that has no value, and a list with nothing in it."""


class SettingsError(Exception):
    """The settings cannot be used; each line says which, where it came from, and why."""


def _default_data_dir() -> Path:
    state = os.environ.get("STATE_DIRECTORY")
    if state:
        return Path(state.split(":")[0])
    share = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (share if share.is_absolute() else Path.home() / ".local" / "share") / "bridge-server"


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is no text in UTF-8") from error


def _fault_of(name: str, read: Callable[[], object]) -> str | None:
    try:
        read()
    except ValueError as error:
        return f"{name}: {error}"
    return None


def _keys_in(setting: SecretStr | None) -> list[SigningKey]:
    return [] if setting is None else read_private_keys(setting.get_secret_value())


def _keys_of(file: Path | None) -> list[SigningKey]:
    return [] if file is None else read_private_keys(_text_of(file))


def _read_none(name: str, value: Any) -> Any:
    field = Settings.model_fields.get(name)
    if field is None or not isinstance(value, str) or value.strip().lower() != NOT_SET:
        return value
    if isinstance(field.default, tuple):
        return ()
    return field.default if field.default in (None, "") else value


def _push_services() -> Any:
    """What makes providers of settings: a room that is imported only when a setting turns it on."""
    return import_module("bridge_server.push.providers.configured")


_PARTS_OF_A_KEY = {
    "apns_key": ("apns_key_id", "apns_team_id", "apns_topic"),
    "vapid_private_key": ("vapid_subject",),
}


class Settings(BaseSettings):
    """The settings of one server. Times are in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(env_prefix=ENVIRONMENT_PREFIX, extra="forbid", frozen=True)

    host: str = Field("127.0.0.1", description="The address to listen on; 0.0.0.0 or :: for every one.")
    port: Port = Field(8080, description="The port to listen on; 0 picks a free one.")
    public_url: Url | None = Field(
        None, description="How others reach this server; by default its own address."
    )
    data_dir: Directory = Field(
        default_factory=_default_data_dir,
        description="Where the database lives. For its owner alone (mode 0700).",
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least level logged."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, JSON otherwise."
    )
    access_log: bool = Field(False, description="Log every request, not only errors and slow ones.")
    slow_request_seconds: Duration = Field(1.0, description="A request that takes longer is logged.")
    metrics_port: Port | None = Field(None, description="Serve /metrics on a port of its own.")
    metrics_host: str | None = Field(
        None, description="The address that metrics_port is at; by default that of host."
    )
    metrics_token: Token | None = Field(
        None, description="Serve /metrics on the main port to whoever sends this bearer token."
    )

    trusted_proxies: Networks = Field((), description="Proxies whose X-Forwarded-For is believed.")
    quota_exempt: Networks = Field(
        networks("127.0.0.0/8,::1/128"), description="Clients that no quota per address applies to."
    )
    requests_per_second: Rate = Field(100, description="Requests per client address, in the long run.")
    requests_burst: Burst = Field(1000, description="Requests per client address, at once.")
    sessions_per_minute: Rate = Field(60, description="New sessions per client address, in the long run.")
    sessions_burst: Burst = Field(120, description="New sessions per client address, at once.")

    max_address_connections: PositiveInt | None = Field(
        None,
        description="Open connections per client address; by default a quarter of the open files.",
    )
    head_timeout: Duration = Field(
        10, description="A new connection on which no request has come after so long is closed."
    )
    unread_timeout: Duration = Field(
        30, description="A client that takes nothing of what it is sent for so long is cut off."
    )
    max_address_unread_bytes: PositiveInt = Field(
        32 * 2**20, description="Bytes that wait in memory for the clients at one address to read them."
    )
    max_unread_bytes: PositiveInt = Field(
        64 * 2**20, description="Bytes that wait in memory for clients to read them."
    )

    relay_body_limit: PositiveInt = Field(256 * 1024, description="The largest body the bridge accepts.")
    session_ttl: Seconds = Field(
        DAY, description="A session lives this long from the wallet's last update or the dapp's last call."
    )
    call_ttl: Seconds = Field(HOUR, description="A call lives this long.")
    status_ttl: Seconds = Field(HOUR, description="A call status lives this long.")
    subscription_ttl: Seconds = Field(
        30 * DAY, description="A webhook of /subscribe is called this long unless renewed."
    )
    payload_bytes_per_address: PositiveInt = Field(
        32 * 2**20,
        description="Payload bytes that a client address stores at once; they come back over `call_ttl`.",
    )
    payload_bytes_in_all: PositiveInt = Field(
        4 * 2**30,
        description="Payload bytes that all clients together store at once; they come back likewise.",
    )
    subscription_bytes_per_address: PositiveInt = Field(
        64 * 2**20,
        description="Bytes of subscriptions that a client address stores at once; "
        "they come back over `subscription_ttl`.",
    )
    subscription_bytes_in_all: PositiveInt = Field(
        4 * 2**30,
        description="Bytes of subscriptions (/subscribe, /new) that all clients together store at once.",
    )
    max_pending_calls: PositiveInt = Field(100, description="Calls without a status, per session.")
    max_topic_webhooks: PositiveInt = Field(16, description="Webhooks per topic.")
    max_wait: PositiveInt = Field(25, le=300, description="The longest long poll.")
    cache_bytes: PositiveInt = Field(32 * 2**20, description="Memory for what is read again and again.")
    database_limit: PositiveInt | None = Field(
        None, description="The database may hold so many bytes, its log included; by default any number."
    )
    sweep_interval: Duration = Field(60, description="How often expired things are deleted.")

    message_limit: PositiveInt = Field(256 * 1024, description="The largest message on a WebSocket.")
    message_ttl: Seconds = Field(DAY, description="A message waits this long for a subscriber of its topic.")
    max_topic_messages: PositiveInt = Field(1000, description="Messages that wait on one topic.")
    max_topic_bytes: PositiveInt = Field(2**20, description="Bytes that wait on one topic.")
    max_address_messages: PositiveInt = Field(
        10_000, description="Messages that wait and came from one client address."
    )
    max_address_bytes: PositiveInt = Field(
        16 * 2**20, description="Bytes that wait and came from one client address."
    )
    messages_per_second: Rate = Field(
        100, description="Messages on WebSockets per client address, in the long run."
    )
    messages_burst: Burst = Field(1000, description="Messages on WebSockets per client address, at once.")
    max_sockets: PositiveInt = Field(1000, description="Open WebSockets per client address.")
    max_socket_topics: PositiveInt = Field(1000, description="Topics that one WebSocket may subscribe to.")
    heartbeat: Duration = Field(
        30, description="How often a WebSocket is pinged; one that does not answer until the next is dead."
    )

    relay_check_audience: bool = Field(
        False, description="Clients of generation 2.x must have made their tokens for this server's URL."
    )
    project_ids: ProjectIds = Field(
        (), description="Project ids of generation 2.x that may connect; by default any, or none."
    )
    max_client_topics: PositiveInt = Field(
        1000, description="Topics that one client of generation 2.x may be subscribed to."
    )
    max_client_messages: PositiveInt = Field(
        10_000, description="Messages that wait and came from one client of generation 2.x."
    )
    max_client_bytes: PositiveInt = Field(
        16 * 2**20, description="Bytes that wait and came from one client of generation 2.x."
    )
    max_remembered_calls: PositiveInt = Field(
        200_000,
        description="Publications of generation 2.x that are known again if repeated within 5 minutes.",
    )

    account_rate_per_hour: float = Field(
        2,
        ge=0.001,
        le=1_000_000,
        description="Notifications to one account from one project, in the long run.",
    )
    account_burst: Burst = Field(50, description="Notifications to one account from one project, at once.")
    notify_body_limit: PositiveInt = Field(
        512 * 1024, description="The largest body that the notification service accepts."
    )
    read_notification_ttl: Seconds = Field(
        90 * DAY, description="A notification is kept this long after it was read."
    )
    unread_notification_ttl: Seconds = Field(
        365 * DAY, description="A notification is kept at most this long after it was sent."
    )
    admin_token: Token | None = Field(
        None, description="Serve the admin API to whoever sends this bearer token."
    )

    inbox_origins: Origins = Field(
        (), description="Web pages that may use inboxes, such as https://app.example.org."
    )
    inbox_body_limit: PositiveInt = Field(64 * 1024, description="The largest body that an inbox accepts.")
    inbox_token_ttl: Seconds = Field(30 * DAY, description="Signing in to an inbox lasts this long.")
    sign_in_ttl: Seconds = Field(600, description="A nonce for signing in is good this long.")
    max_devices: PositiveInt = Field(16, description="Devices per account.")
    max_streams: PositiveInt = Field(32, description="Open streams per account.")

    push_body_limit: PositiveInt = Field(
        64 * 1024, description="The largest body that the push server accepts."
    )
    push_timeout: Duration = Field(10, description="How long a push provider may take to answer.")
    push_log: bool = Field(True, description="Let devices of type log have their pushes written to the log.")
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
        None, description="APNs: the certificates that the other server is checked with, for tests."
    )
    vapid_private_key: Token | None = Field(
        None, description="Web Push: the private key that `bridge-server keys vapid` prints."
    )
    vapid_subject: str = Field(
        "", description="Web Push: whom push services write to, mailto:you@example.org or an https URL."
    )

    rpc_token: Token | None = Field(
        None, description="The wallet answers whoever sends this bearer token; without one, loopback only."
    )
    rpc_hosts: HostNames = Field((), description="Further names that the wallet may be called by (Host).")
    rpc_origins: Origins = Field(
        (), description="Web pages that may call the wallet, such as https://app.example.org."
    )
    rpc_body_limit: PositiveInt = Field(2**20, description="The largest body that the wallet accepts.")
    node_url: NodeUrl | None = Field(None, description="The Ethereum node's JSON-RPC endpoint, over HTTP.")
    node_timeout: Duration = Field(10, description="How long the node may take to answer.")
    chain_id: ChainId | None = Field(None, description="The wallet's chain; by default the node's.")
    typed_data_scheme: Literal["eip712", "eip191"] = Field(
        "eip712",
        description="eip191: eth_signTypedData signs its EIP-712 preimage as personal_sign would.",
    )
    typed_data_chain: Literal["any", "own"] = Field(
        "any", description="own: typed data for another chain than the wallet's is refused."
    )
    approve: Literal["auto", "queue"] = Field(
        "auto", description="queue: nothing is signed before `bridge-server approvals approve`."
    )
    approval_timeout: Seconds = Field(300, description="A request waits this long to be approved.")
    settled_request_ttl: Seconds = Field(
        30 * DAY, description="Transactions that are done and requests that were decided are kept this long."
    )
    keystore_dir: Directory | None = Field(
        None, description="Where the wallet's key files are; by default `keystore` in `data_dir`."
    )
    light_kdf: bool = Field(
        False, description="New key files are quicker to open, for their owner and for a thief."
    )
    private_keys: Tokens = Field(
        None, description="Keys of the wallet, in hexadecimal, separated by commas. Never locked."
    )
    private_keys_file: File | None = Field(None, description="The same in a file, separated by lines.")
    dev_accounts: bool = Field(
        False, description="Have accounts whose keys everybody knows, for development."
    )
    dev_account_count: Annotated[int, Field(ge=1, le=1000)] = Field(
        10, description="How many accounts for development."
    )
    dev_mnemonic: Token = Field(
        SecretStr(DEVELOPMENT_MNEMONIC), description="The words that they are made from (BIP-39)."
    )
    dev_accounts_public: bool = Field(
        False, description="Have them even where others than this machine can reach the server."
    )

    webhook_timeout: Duration = Field(10, description="How long a webhook may take to answer.")
    webhook_secret: SigningSecret | None = Field(
        None, description="Signs webhooks (Standard Webhooks): whsec_ and 24 to 64 random bytes in Base64."
    )
    allow_private_webhooks: bool = Field(
        False, description="Call webhooks at private and loopback addresses too. For development."
    )
    dead_letter_ttl: Seconds = Field(7 * DAY, description="How long a webhook that was given up is kept.")

    @model_validator(mode="before")
    @classmethod
    def _none_is_a_value(cls, values: Any) -> Any:
        """`none`, in any source, is what is printed of a setting that is not set, or of an empty list."""
        return {name: _read_none(name, value) for name, value in values.items()}

    @model_validator(mode="after")
    def _metrics_for_others_want_a_token(self) -> Self:
        if self.metrics_are_guarded and self.metrics_token is None:
            raise ValueError(
                f"metrics_port: others than this machine can reach {self._metrics_host}: set metrics_token, "
                "which they must then send, or listen on 127.0.0.1"
            )
        return self

    @model_validator(mode="after")
    def _push_credentials_are_well_formed(self) -> Self:
        credentials: list[tuple[str, Callable[[], object]]] = [
            ("fcm_credentials", self.fcm),
            ("apns_key", self.apns),
        ]
        if self.vapid_private_key is not None:
            key = self.vapid_private_key.get_secret_value()
            credentials.append(("vapid_private_key", lambda: _push_services().check_vapid_key(key)))
            subject = self.vapid_subject
            credentials.append(("vapid_subject", lambda: _push_services().check_vapid_subject(subject)))
        faults = [fault for name, read in credentials if (fault := _fault_of(name, read)) is not None]
        for key, others in _PARTS_OF_A_KEY.items():
            if getattr(self, key) is None:
                faults += [f"{name}: is set, but {key} is not" for name in others if getattr(self, name)]
        if faults:
            raise ValueError("\n".join(faults))
        return self

    @model_validator(mode="after")
    def _wallet_keys_are_well_formed(self) -> Self:
        mnemonic = self.dev_mnemonic.get_secret_value()
        faults = (
            _fault_of("dev_mnemonic", lambda: mnemonic == DEVELOPMENT_MNEMONIC or checked_mnemonic(mnemonic)),
            _fault_of("private_keys", lambda: _keys_in(self.private_keys)),
            _fault_of("private_keys_file", lambda: _keys_of(self.private_keys_file)),
        )
        if any(faults):
            raise ValueError("\n".join(filter(None, faults)))
        return self

    @model_validator(mode="after")
    def _published_keys_stay_on_this_machine(self) -> Self:
        if not self.dev_accounts or self.dev_accounts_public:
            return self
        force = "leave them out, or force it with dev_accounts_public"
        if not is_loopback(self.host):
            raise ValueError(
                f"dev_accounts: everybody knows their keys, and host {self.host} is open to others than this "
                f"machine: listen on 127.0.0.1, {force}"
            )
        if self.way_through_a_proxy is not None:
            raise ValueError(
                f"dev_accounts: everybody knows their keys, and {self.way_through_a_proxy} says that others "
                f"than this machine come through a proxy: {force}"
            )
        return self

    @model_validator(mode="after")
    def _unread_outlives_read(self) -> Self:
        if self.unread_notification_ttl < self.read_notification_ttl:
            raise ValueError("unread_notification_ttl must be at least read_notification_ttl")
        return self

    @model_validator(mode="after")
    def _sessions_outlive_calls(self) -> Self:
        if self.session_ttl < self.call_ttl + self.status_ttl:
            raise ValueError("session_ttl must be at least call_ttl + status_ttl: raise it or lower those")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is handed in: `load_settings` merges the sources, and knows which one won."""
        return (init_settings,)

    def fcm(self) -> ProviderOf | None:
        """FCM; None when it is not configured. Raises ValueError."""
        if self.fcm_credentials is None:
            return None
        fcm: ProviderOf = _push_services().fcm(
            _text_of(self.fcm_credentials), self.fcm_endpoint, self.fcm_token_endpoint, self.push_timeout
        )
        return fcm

    def apns(self) -> ProviderOf | None:
        """APNs; None when it is not configured. Raises ValueError."""
        if self.apns_key is None:
            return None
        apns: ProviderOf = _push_services().apns(
            key=_text_of(self.apns_key),
            key_id=self.apns_key_id,
            team_id=self.apns_team_id,
            topic=self.apns_topic,
            environment=self.apns_environment,
            endpoint=self.apns_endpoint,
            ca_file=None if self.apns_ca_file is None else str(self.apns_ca_file),
            timeout_seconds=self.push_timeout,
        )
        return apns

    def webpush(self) -> ProviderOf | None:
        """Web Push; None when it is not configured."""
        if self.vapid_private_key is None:
            return None
        webpush: ProviderOf = _push_services().webpush(
            self.vapid_private_key.get_secret_value(),
            self.vapid_subject,
            self.push_timeout,
            self.allow_private_webhooks,
            USER_AGENT,
        )
        return webpush

    def development_keys(self) -> list[SigningKey]:
        """The keys of the accounts for development; none when there are none. Raises ValueError."""
        if not self.dev_accounts:
            return []
        return development_keys(self.dev_mnemonic.get_secret_value(), self.dev_account_count)

    def raw_keys(self) -> list[SigningKey]:
        """The wallet's keys that stand in the settings. Raises ValueError."""
        return _keys_in(self.private_keys) + _keys_of(self.private_keys_file)

    @property
    def metrics_are_guarded(self) -> bool:
        """Whether the port of the metrics asks for `metrics_token`, since others can reach it."""
        return self.metrics_port is not None and not is_loopback(self._metrics_host)

    @property
    def _metrics_host(self) -> str:
        """The address that /metrics is served on when it has a port of its own."""
        return self.metrics_host or self.host

    @property
    def way_through_a_proxy(self) -> str | None:
        """The setting by which others than this machine come through a proxy; None when none says so."""
        if self.trusted_proxies:
            return "trusted_proxies"
        public_host = urlsplit(self.public_url or "").hostname
        return "public_url" if public_host is not None and not is_loopback(public_host) else None

    @property
    def publishes_keys_here_only(self) -> bool:
        """Whether the accounts for development are everybody's, and only this machine reaches them."""
        is_published = self.dev_mnemonic.get_secret_value() == DEVELOPMENT_MNEMONIC
        is_here = is_loopback(self.host) and self.way_through_a_proxy is None
        return self.dev_accounts and is_published and is_here

    @property
    def has_wallet(self) -> bool:
        """Whether callers of the wallet can do anything with it: there are keys, or a node behind it."""
        named = (self.private_keys, self.private_keys_file, self.node_url)
        return self.dev_accounts or any(each is not None for each in named) or self.keystore.exists()

    @property
    def keystore(self) -> Path:
        """The directory of the wallet's key files."""
        return self.keystore_dir or self.data_dir / "keystore"

    @property
    def audit_file(self) -> Path:
        """What the wallet has signed is written here."""
        return self.data_dir / "audit.log"

    @property
    def server_file(self) -> Path:
        """Where a running server answers is written here, for commands."""
        return self.data_dir / "server.json"

    @property
    def database_file(self) -> Path:
        """The SQLite file."""
        return self.data_dir / "bridge.sqlite3"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, the origin of each by name, and variables that look like settings but are none."""

    settings: Settings
    origins: Mapping[str, str]
    unknown_variables: tuple[str, ...]


def load_settings(
    flags: Mapping[str, Any], config_file: Path | None, assigned: Mapping[str, str] = MappingProxyType({})
) -> LoadedSettings:
    """Merge flags, environment, file and defaults; `assigned` are the flags `--set`. Raises SettingsError."""
    _check_assigned(assigned, flags)
    file_values = _read_file(config_file) if config_file else {}
    environment_values = EnvSettingsSource(Settings)()
    origins = dict.fromkeys(Settings.model_fields, "default")
    origins |= dict.fromkeys(file_values, f"file {config_file}")
    origins |= {name: f"environment {ENVIRONMENT_PREFIX}{name.upper()}" for name in environment_values}
    origins |= {name: "flag --" + name.replace("_", "-") for name in flags}
    origins |= {name: f"flag --set {name}" for name in assigned}
    try:
        settings = Settings(**{**file_values, **environment_values, **flags, **assigned})
    except ValidationError as error:
        raise SettingsError("\n".join(_complaints(error, origins))) from error
    return LoadedSettings(settings, origins, _unknown_variables())


def _check_assigned(assigned: Mapping[str, str], flags: Mapping[str, Any]) -> None:
    faults = [f"--set: {_unknown(name)}" for name in assigned if name not in Settings.model_fields]
    faults += [f"--set: {name} is also given by a flag of its own" for name in assigned if name in flags]
    if faults:
        raise SettingsError("\n".join(faults))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from error
    unknown = [name for name in values if name not in Settings.model_fields]
    if unknown:
        raise SettingsError("\n".join(f"{path}: {_unknown(name)}" for name in unknown))
    return values


def _unknown(name: str) -> str:
    near = get_close_matches(name, Settings.model_fields, n=1)
    return f"there is no setting {name}" + (f"; did you mean {near[0]}?" if near else "")


def _unknown_variables() -> tuple[str, ...]:
    known = {f"{ENVIRONMENT_PREFIX}{name}".upper() for name in Settings.model_fields} | {CONFIG_VARIABLE}
    return tuple(
        sorted(
            name
            for name in os.environ
            if name.upper().startswith(ENVIRONMENT_PREFIX) and name.upper() not in known
        )
    )


def _complaints(error: ValidationError, origins: Mapping[str, str]) -> list[str]:
    lines = []
    for fault in error.errors():
        name = str(fault["loc"][0]) if fault["loc"] else ""
        origin = f" ({origins[name]})" if name in origins else ""
        message = fault["msg"].removeprefix("Value error, ")
        lines.append(f"{name}{origin}: {message}" if name else message)
    return lines
