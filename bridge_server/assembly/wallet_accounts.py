"""The wallet's accounts, as the settings say: for the server, and for commands beside it."""

import os

from bridge_server.ethereum.keystore import LIGHT_COST, STANDARD_COST
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.secrets import IdMaker
from bridge_server.settings.settings import Settings
from bridge_server.settings.types import secret_of, text_of
from bridge_server.wallet.accounts import Accounts, Derivations, development_keys, read_private_keys
from bridge_server.wallet.keystore_files import KeystoreFiles


def wallet_accounts(settings: Settings, files: KeystoreFiles, clock: Clock, ids: IdMaker) -> Accounts:
    """Put the accounts together. Nothing is read of the key files yet."""
    return Accounts(
        keys_for_development(settings),
        keys_in_settings(settings),
        files,
        Derivations(),
        clock,
        ids,
        os.urandom,
        LIGHT_COST if settings.light_kdf else STANDARD_COST,
    )


def keys_for_development(settings: Settings) -> list[SigningKey]:
    """The keys of the development accounts; none when they are off. Raises ValueError."""
    if not settings.dev_accounts:
        return []
    return development_keys(settings.dev_mnemonic.get_secret_value(), settings.dev_account_count)


def keys_in_settings(settings: Settings) -> list[SigningKey]:
    """The keys of `private_keys` and `private_keys_file`. Raises ValueError."""
    texts = (secret_of(settings.private_keys) or "", text_of(settings.private_keys_file))
    return [key for text in texts for key in read_private_keys(text)]
