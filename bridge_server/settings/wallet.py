"""Settings of the wallet: its callers, its node, approvals and keys."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PositiveInt, SecretStr, model_validator

from bridge_server.ethereum.mnemonic import DEVELOPMENT_MNEMONIC, checked_mnemonic
from bridge_server.kernel.ip_addresses import is_loopback
from bridge_server.settings.checks import fault_of, require_current, secret_of, text_of
from bridge_server.settings.server import ServerSettings
from bridge_server.settings.storage import StorageSettings
from bridge_server.settings.types import (
    DAY,
    ChainId,
    Directory,
    Duration,
    File,
    HostNames,
    NodeUrl,
    Origins,
    Seconds,
    Token,
    Tokens,
)
from bridge_server.wallet.private_keys import read_private_keys

_DEVELOPMENT_CHAIN_ID = 31_337
"""The chain of development accounts when neither `chain_id` nor a node is set: anvil's and hardhat's."""


class WalletSettings(StorageSettings, ServerSettings, defer_build=True):
    """Settings of the wallet: authentication, its Ethereum node, approvals, and its keys."""

    rpc_token: Token | None = Field(
        None, description="The bearer token of the wallet; without one, it answers on loopback only."
    )
    rpc_token_previous: Token | None = Field(
        None, description="The rpc_token of before, which is accepted too while its bearers change."
    )
    rpc_hosts: HostNames = Field(
        (), description="Further host names of the wallet and of the admin API, in the Host header field."
    )
    rpc_origins: Origins = Field(
        (), description="Web pages that may call the wallet, such as https://app.example.org."
    )
    rpc_body_limit: PositiveInt = Field(2**20, description="The largest body that the wallet accepts.")
    holds_wallet: bool = Field(
        True,
        description="false: this process leaves the wallet to another one on the PostgreSQL database.",
    )
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
    approval_timeout: Seconds = Field(300, description="A request for approval expires after this time.")
    settled_request_ttl: Seconds = Field(
        30 * DAY, description="Settled transactions and decided approval requests are kept this long."
    )
    keystore_dir: Directory | None = Field(
        None, description="Where the wallet's key files are; by default `keystore` in `data_dir`."
    )
    light_kdf: bool = Field(False, description="New key files are faster to open, also for an attacker.")
    private_keys: Tokens = Field(
        None,
        description="Private keys of the wallet, in hexadecimal, separated by commas. They are never locked.",
    )
    private_keys_file: File | None = Field(
        None, description="A file with keys of the wallet, one on each line."
    )
    dev_accounts: bool = Field(False, description="Add accounts with published keys. For development.")
    dev_account_count: Annotated[int, Field(ge=1, le=1000)] = Field(
        10, description="Number of accounts for development."
    )
    dev_mnemonic: Token = Field(
        SecretStr(DEVELOPMENT_MNEMONIC), description="The mnemonic of the accounts for development (BIP-39)."
    )
    dev_accounts_public: bool = Field(
        False, description="Allow accounts for development on a server that other machines can reach."
    )

    @model_validator(mode="after")
    def _the_previous_rpc_token_has_a_successor(self) -> Self:
        require_current("rpc_token", self.rpc_token, self.rpc_token_previous)
        return self

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
        faults = (
            fault_of("dev_mnemonic", lambda: mnemonic == DEVELOPMENT_MNEMONIC or checked_mnemonic(mnemonic)),
            fault_of("private_keys", lambda: read_private_keys(secret_of(self.private_keys) or "")),
            fault_of("private_keys_file", lambda: read_private_keys(text_of(self.private_keys_file))),
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
