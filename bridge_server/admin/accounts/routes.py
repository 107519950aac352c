"""The routes of accounts in the admin API."""

from bridge_server.admin.accounts.handlers import AccountHandlers
from bridge_server.admin.rows import ANY_ACCOUNT, AdminRows
from bridge_server.web.routes import Route

_ACCOUNT = f"/admin/accounts/{{account:{ANY_ACCOUNT}}}"


def account_routes(handlers: AccountHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """The routes of an account and of its inbox."""
    return (
        rows.read(_ACCOUNT, "account", handlers.account),
        rows.read(f"{_ACCOUNT}/inbox", "account-inbox", handlers.inbox),
        rows.write("POST", f"{_ACCOUNT}/inbox/read", "account-mark-read", handlers.mark_read),
    )
