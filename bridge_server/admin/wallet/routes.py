"""The wallet's routes in the admin API."""

from bridge_server.admin.rows import ANY_ID, AdminRows
from bridge_server.admin.wallet.handlers import WalletDeskHandlers
from bridge_server.web.routes import Route

_WALLET = "/admin/wallet"
_ACCOUNT = f"{_WALLET}/accounts/{{address:{ANY_ID}}}"


def wallet_desk_routes(handlers: WalletDeskHandlers, rows: AdminRows, *, may_sign: bool) -> tuple[Route, ...]:
    """Accounts, transactions, signatures. Only with `may_sign` can accounts be unlocked and locked here."""
    shown = (
        rows.read(f"{_WALLET}/accounts", "wallet-accounts", handlers.accounts),
        rows.read(f"{_WALLET}/transactions", "wallet-transactions", handlers.transactions),
        rows.read(f"{_WALLET}/signatures", "wallet-signatures", handlers.signatures),
    )
    if not may_sign:
        return shown
    return (
        *shown,
        rows.write("POST", f"{_ACCOUNT}/unlock", "unlock-account", handlers.unlock),
        rows.write("POST", f"{_ACCOUNT}/lock", "lock-account", handlers.lock),
    )
