"""Settings of the rooms: relay, WebSockets, notifications, inboxes, outbox, pushes, wallet."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, SecretStr, model_validator

from bridge_server.ethereum.mnemonic import DEVELOPMENT_MNEMONIC, checked_mnemonic
from bridge_server.kernel.fields import is_loopback
from bridge_server.settings import types
from bridge_server.settings.server import ServerSettings, StorageSettings
from bridge_server.settings.types import DAY, HOUR, faults_of, secret_of, setting, text_of
from bridge_server.wallet.accounts import read_private_keys

_CALL_LIFETIMES = frozenset({"call_ttl", "status_ttl"})

_PARTS_OF_A_KEY = {
    "apns_key": ("apns_key_id", "apns_team_id", "apns_topic"),
    "vapid_private_key": ("vapid_subject",),
}

_DEVELOPMENT_CHAIN_ID = 31_337
"""The chain of development accounts when neither `chain_id` nor a node is set: anvil's and hardhat's."""


class RelaySettings(BaseModel, defer_build=True):
    """The relay: lifetimes and limits of sessions, calls and subscriptions."""

    relay_body_limit: PositiveInt = setting(256 * 1024, "The largest body the bridge accepts.")
    sessions_per_minute: types.Rate = setting(60, "New sessions per client address, in the long run.")
    sessions_burst: types.Burst = setting(120, "New sessions per client address, at once.")
    session_ttl: types.Seconds = setting(
        DAY, "A session lives this long from the wallet's last update or the dapp's last call."
    )
    call_ttl: types.Seconds = setting(
        HOUR, "A call lives this long; unless set, at most half of `session_ttl`."
    )
    status_ttl: types.Seconds = setting(
        HOUR, "A call status lives this long; unless set, at most half of `session_ttl`."
    )
    subscription_ttl: types.Seconds = setting(
        30 * DAY, "A webhook of /subscribe is called this long unless renewed."
    )
    payload_bytes_per_address: PositiveInt = setting(
        32 * 2**20, "Payload bytes that a client address stores at once; they come back over `call_ttl`."
    )
    payload_bytes_in_all: PositiveInt = setting(
        4 * 2**30, "Payload bytes that all clients together store at once; they come back over `call_ttl`."
    )
    subscription_bytes_per_address: PositiveInt = setting(
        64 * 2**20,
        "Bytes of subscriptions that a client address stores at once; "
        "they come back over `subscription_ttl`.",
    )
    subscription_bytes_in_all: PositiveInt = setting(
        4 * 2**30, "Bytes of subscriptions (/subscribe, /new) that all clients together store at once."
    )
    max_pending_calls: PositiveInt = setting(100, "Calls without a status, per session.")
    max_topic_webhooks: PositiveInt = setting(16, "Webhooks per topic.")

    @model_validator(mode="before")
    @classmethod
    def _calls_of_short_sessions_are_short(cls, values: Any) -> Any:
        """A short `session_ttl` alone is a complete configuration: calls and statuses share its time."""
        if not str(values.get("session_ttl", "")).isdecimal():
            return values
        half = min(HOUR, int(values["session_ttl"]) // 2)
        return {**dict.fromkeys(_CALL_LIFETIMES, half), **values} if half else values

    @model_validator(mode="after")
    def _sessions_outlive_calls(self) -> Self:
        if self.session_ttl < self.call_ttl + self.status_ttl:
            raise ValueError("session_ttl must be at least call_ttl + status_ttl: raise it or lower those")
        return self


class PubSubSettings(BaseModel, defer_build=True):
    """The WebSocket relay of generations 1.x and 2.x: limits of messages, sockets and topics."""

    message_limit: PositiveInt = setting(256 * 1024, "The largest message on a WebSocket.")
    message_ttl: types.Seconds = setting(DAY, "A message waits this long for a subscriber of its topic.")
    max_topic_messages: PositiveInt = setting(1000, "Messages that wait on one topic.")
    max_topic_bytes: PositiveInt = setting(2**20, "Bytes that wait on one topic.")
    max_address_messages: PositiveInt = setting(
        10_000, "Messages that wait and came from one client address."
    )
    max_address_bytes: PositiveInt = setting(16 * 2**20, "Bytes that wait and came from one client address.")
    messages_per_second: types.Rate = setting(
        100,
        "Messages on WebSockets per client address, in the long run; generation 2.x counts one for each "
        "receiver.",
    )
    messages_burst: types.Burst = setting(1000, "Messages on WebSockets per client address, at once.")
    max_sockets: PositiveInt = setting(1000, "Open WebSockets per client address.")
    max_socket_topics: PositiveInt = setting(1000, "Topics that one WebSocket may subscribe to.")
    max_address_topics: PositiveInt = setting(
        20_000, "Topics that all WebSockets of a client address may be subscribed to together."
    )
    heartbeat: types.Duration = setting(
        30, "Interval of pings on a WebSocket; a client that sends nothing in between is cut off."
    )
    relay_check_audience: bool = setting(
        False,
        "Clients of generation 2.x must have made their tokens for this server's URL. "
        "pyWalletConnect signs the name of the public relay, and cannot connect then.",
    )
    project_ids: types.ProjectIds = setting(
        (), "Project ids of generation 2.x that may connect; by default any, or none."
    )
    max_client_topics: PositiveInt = setting(
        1000, "Topics that one client of generation 2.x may be subscribed to."
    )
    max_topic_clients: PositiveInt = setting(
        50, "Clients of generation 2.x that may be subscribed to one topic."
    )
    max_client_messages: PositiveInt = setting(
        10_000, "Messages that wait and came from one client of generation 2.x."
    )
    max_client_bytes: PositiveInt = setting(
        16 * 2**20, "Bytes that wait and came from one client of generation 2.x."
    )
    max_remembered_calls: PositiveInt = setting(
        200_000, "Publications of generation 2.x that are known again if repeated within 5 minutes."
    )


class NotifySettings(BaseModel, defer_build=True):
    """The notification service: limits and lifetimes of notifications."""

    account_rate_per_hour: types.Rate = setting(
        2, "Notifications to one account from one project, in the long run."
    )
    account_burst: types.Burst = setting(50, "Notifications to one account from one project, at once.")
    notify_body_limit: PositiveInt = setting(
        512 * 1024, "The largest body that the notification service accepts."
    )
    read_notification_ttl: types.Seconds = setting(
        90 * DAY, "A notification is kept this long after it was read."
    )
    unread_notification_ttl: types.Seconds = setting(
        365 * DAY, "A notification is kept at most this long after it was sent."
    )
    missed_account_ttl: types.Seconds = setting(
        30 * DAY, "An account that a notification has not reached is kept this long, with the reason."
    )
    max_missed_accounts: NonNegativeInt = setting(
        100_000, "Accounts of one project that are kept with such a reason; the oldest go first."
    )

    @model_validator(mode="after")
    def _unread_outlives_read(self) -> Self:
        if self.unread_notification_ttl < self.read_notification_ttl:
            raise ValueError("unread_notification_ttl must be at least read_notification_ttl")
        return self


class InboxSettings(BaseModel, defer_build=True):
    """Inboxes: sign-in, and the lifetime of inbox sessions."""

    inbox_origins: types.Origins = setting(
        (), "Web pages that may use inboxes, such as https://app.example.org."
    )
    inbox_body_limit: PositiveInt = setting(64 * 1024, "The largest body that an inbox accepts.")
    inbox_token_ttl: types.Seconds = setting(30 * DAY, "A sign-in to an inbox is valid this long.")
    sign_in_ttl: types.Seconds = setting(600, "A nonce for a sign-in is valid this long.")
    max_devices: PositiveInt = setting(16, "Devices per account.")
    max_streams: PositiveInt = setting(32, "Open streams per account.")


class OutboxSettings(BaseModel, defer_build=True):
    """The outbox: calls of webhooks, and the lifetime of dead letters."""

    webhook_timeout: types.Duration = setting(10, "How long a webhook may take to answer.")
    webhook_secret: types.SigningSecret | None = setting(
        None, "Signs webhooks (Standard Webhooks): whsec_ and 24 to 64 random bytes in Base64."
    )
    webhook_secret_previous: types.SigningSecret | None = setting(
        None, "The former webhook_secret, which signs webhooks too while receivers change."
    )
    allow_private_webhooks: bool = setting(
        False, "Call webhooks at private and loopback addresses too. For development."
    )
    dead_letter_ttl: types.Seconds = setting(7 * DAY, "A webhook that failed for good is kept this long.")


class PushSettings(BaseModel, defer_build=True):
    """The push server: limits of registrations, and the credentials of push services."""

    push_body_limit: PositiveInt = setting(64 * 1024, "The largest body that the push server accepts.")
    push_timeout: types.Duration = setting(10, "How long a push provider may take to answer.")
    push_log: bool = setting(True, "Write pushes to devices of type log to the server's log.")
    clients_per_minute: types.Rate = setting(
        60, "New push registrations per client address, in the long run."
    )
    clients_burst: types.Burst = setting(120, "New push registrations per client address, at once.")
    fcm_credentials: types.File | None = setting(None, "FCM: the service account's JSON file.")
    fcm_endpoint: types.Url | None = setting(None, "FCM: another server than Google's, for tests.")
    fcm_token_endpoint: types.Url | None = setting(
        None, "FCM: another token endpoint than the account's own, for tests."
    )
    apns_key: types.File | None = setting(None, "APNs: the .p8 file of the signing key.")
    apns_key_id: str = setting("", "APNs: the key's id, 10 characters.")
    apns_team_id: str = setting("", "APNs: the team's id, 10 characters.")
    apns_topic: str = setting("", "APNs: the app's bundle id.")
    apns_environment: Literal["production", "sandbox"] = setting(
        "production", "APNs: which of Apple's services."
    )
    apns_endpoint: types.Url | None = setting(None, "APNs: another server than Apple's, for tests.")
    apns_ca_file: types.File | None = setting(None, "APNs: the CA certificates for apns_endpoint, for tests.")
    vapid_private_key: types.Token | None = setting(
        None, "Web Push: the private key that `bridge-server keys vapid` prints."
    )
    vapid_subject: str = setting(
        "", "Web Push: the contact for push services, mailto:you@example.org or an https URL."
    )

    @model_validator(mode="after")
    def _push_credentials_are_well_formed(self) -> Self:
        faults = list(faults_of(self._checks()))
        for key, others in _PARTS_OF_A_KEY.items():
            if getattr(self, key) is None:
                faults += [f"{name}: is set, but {key} is not" for name in others if getattr(self, name)]
        if faults:
            raise ValueError("\n".join(faults))
        return self

    def _checks(self) -> Iterator[tuple[str, Callable[[], object]]]:
        if self.fcm_credentials is not None:
            yield "fcm_credentials", lambda: _keys().ServiceAccount.parse(text_of(self.fcm_credentials))
        if self.apns_key is not None:
            app = (self.apns_key_id, self.apns_team_id, self.apns_topic)
            server = {"endpoint": self.apns_endpoint, "ca_file": self.apns_ca_file}
            yield "apns_key", lambda: _keys().ApnsSettings(text_of(self.apns_key), *app, **server)
        if self.vapid_private_key is not None:
            key = secret_of(self.vapid_private_key)
            yield "vapid_private_key", lambda: _keys().read_private_key(key)
            yield "vapid_subject", lambda: _keys().checked_subject(self.vapid_subject)


def _keys() -> Any:
    """The checks of credentials: their module loads cryptography that a server without push does not need."""
    return import_module("bridge_server.push.keys")


class WalletSettings(StorageSettings, ServerSettings, defer_build=True):
    """The wallet: authentication, its Ethereum node, approvals, and its keys."""

    rpc_token: types.Token | None = setting(
        None, "The bearer token of the wallet; without one, it answers on loopback only."
    )
    rpc_token_previous: types.Token | None = setting(
        None, "The former rpc_token, which is accepted too while its bearers change."
    )
    rpc_hosts: types.HostNames = setting(
        (), "Further host names of the wallet and of the admin API, in the Host header field."
    )
    rpc_origins: types.Origins = setting(
        (), "Web pages that may call the wallet, such as https://app.example.org."
    )
    rpc_body_limit: PositiveInt = setting(2**20, "The largest body that the wallet accepts.")
    holds_wallet: bool = setting(
        True, "false: this process leaves the wallet to another one on the PostgreSQL database."
    )
    node_url: types.NodeUrl | None = setting(None, "The Ethereum node's JSON-RPC endpoint, over HTTP.")
    node_timeout: types.Duration = setting(10, "How long the node may take to answer.")
    chain_id: types.ChainId | None = setting(None, "The wallet's chain; by default the node's.")
    typed_data_scheme: Literal["eip712", "eip191"] = setting(
        "eip712", "eip191: eth_signTypedData signs its EIP-712 preimage as personal_sign would."
    )
    typed_data_chain: Literal["any", "own"] = setting(
        "any", "own: typed data for another chain than the wallet's is refused."
    )
    approve: Literal["auto", "queue"] = setting(
        "auto", "queue: nothing is signed before `bridge-server approvals approve`."
    )
    approval_timeout: types.Seconds = setting(300, "A request for approval expires after this time.")
    settled_request_ttl: types.Seconds = setting(
        30 * DAY, "Settled transactions and decided approval requests are kept this long."
    )
    keystore_dir: types.Directory | None = setting(
        None, "Where the wallet's key files are; by default `keystore` in `data_dir`."
    )
    light_kdf: bool = setting(False, "New key files are faster to open, also for an attacker.")
    private_keys: types.Tokens = setting(
        None, "Private keys of the wallet, in hexadecimal, separated by commas. They are never locked."
    )
    private_keys_file: types.File | None = setting(None, "A file with keys of the wallet, one on each line.")
    dev_accounts: bool = setting(False, "Add accounts with published keys. For development.")
    dev_account_count: Annotated[int, Field(ge=1, le=1000)] = setting(
        10, "Number of accounts for development."
    )
    dev_mnemonic: types.Token = setting(
        SecretStr(DEVELOPMENT_MNEMONIC), "The mnemonic of the accounts for development (BIP-39)."
    )
    dev_accounts_public: bool = setting(
        False, "Allow accounts for development on a server that other machines can reach."
    )

    @model_validator(mode="after")
    def _other_processes_reach_the_wallet(self) -> Self:
        if self.database is None:
            if not self.holds_wallet:
                raise ValueError("holds_wallet: works beside database only: this is the only process")
            return self
        if is_loopback(self.host) or not self.has_wallet:
            return self
        needed = {
            "rpc_token": (self.rpc_token, "other processes forward calls of the wallet from their machines"),
            "internal_url": (self.internal_url or self.processes > 1, "other processes forward calls to it"),
            "trusted_proxies": (self.trusted_proxies, "name the other processes, which forward calls"),
        }
        missing = [(name, reason) for name, (value, reason) in needed.items() if not value]
        if missing:
            with_it = "is needed for a wallet beside database that other machines can reach"
            raise ValueError("\n".join(f"{name}: {with_it}: {reason}" for name, reason in missing))
        return self

    @model_validator(mode="after")
    def _wallet_keys_are_well_formed(self) -> Self:
        mnemonic = self.dev_mnemonic.get_secret_value()
        checks: tuple[tuple[str, Callable[[], object]], ...] = (
            ("dev_mnemonic", lambda: mnemonic == DEVELOPMENT_MNEMONIC or checked_mnemonic(mnemonic)),
            ("private_keys", lambda: read_private_keys(secret_of(self.private_keys) or "")),
            ("private_keys_file", lambda: read_private_keys(text_of(self.private_keys_file))),
        )
        if faults := "\n".join(faults_of(checks)):
            raise ValueError(faults)
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

    @property
    def publishes_keys_here_only(self) -> bool:
        """Whether the accounts for development are everybody's, and only this machine reaches them."""
        is_published = self.dev_mnemonic.get_secret_value() == DEVELOPMENT_MNEMONIC
        is_here = is_loopback(self.host) and self.way_through_a_proxy is None
        return self.dev_accounts and is_published and is_here

    @property
    def has_wallet(self) -> bool:
        """Whether callers of the wallet can use it: there are keys, or a node behind it."""
        named = (self.private_keys, self.private_keys_file, self.node_url)
        return self.dev_accounts or any(each is not None for each in named) or self.keystore.exists()

    @property
    def known_chain_id(self) -> int | None:
        """The wallet's chain; None when only the node knows it."""
        has_no_other = self.chain_id is None and self.node_url is None
        return _DEVELOPMENT_CHAIN_ID if has_no_other and self.dev_accounts else self.chain_id

    @property
    def operators_hosts(self) -> tuple[str, ...]:
        """The host names, besides this machine's, by which the wallet and the admin API are reached."""
        own = "" if self.public_url is None else urlsplit(self.public_url).hostname
        return (*self.rpc_hosts, own) if own else self.rpc_hosts

    @property
    def keystore(self) -> Path:
        """The directory of the wallet's key files."""
        return self.keystore_dir or self.data_dir / "keystore"

    @property
    def audit_file(self) -> Path:
        """The file of the wallet's audit log."""
        return self.data_dir / "audit.log"
