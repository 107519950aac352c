"""The wallet's accounts, as the settings say: for the server, and for commands beside it."""

import os

from bridge_server.ethereum.keystore_kdf import LIGHT_COST, STANDARD_COST
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.ids import IdMaker
from bridge_server.settings.settings import Settings
from bridge_server.wallet.accounts import Accounts
from bridge_server.wallet.derivations import Derivations
from bridge_server.wallet.keystore_files import KeystoreFiles


def wallet_accounts(settings: Settings, files: KeystoreFiles, clock: Clock, ids: IdMaker) -> Accounts:
    """Put the accounts together. Nothing is read of the key files yet."""
    return Accounts(
        settings.development_keys(),
        settings.raw_keys(),
        files,
        Derivations(),
        clock,
        ids,
        os.urandom,
        LIGHT_COST if settings.light_kdf else STANDARD_COST,
    )
