"""Every route of the admin API, as a client of it would list them."""

from tests.support.admin_client import ETHEREUM

PROJECT = "/admin/projects/app"
ROUTES: dict[str, set[str]] = {
    "/admin/projects": {"GET", "POST"},
    PROJECT: {"GET", "DELETE"},
    f"{PROJECT}/secrets": {"POST"},
    f"{PROJECT}/secrets/1": {"DELETE"},
    f"{PROJECT}/account-limit": {"PUT", "DELETE"},
    f"{PROJECT}/webhook": {"PUT", "DELETE"},
    f"{PROJECT}/types": {"GET", "POST"},
    f"{PROJECT}/types/news": {"PUT", "DELETE"},
    f"{PROJECT}/subscribers": {"GET"},
    f"{PROJECT}/subscribers/{ETHEREUM}": {"PUT", "DELETE"},
    f"{PROJECT}/analytics": {"GET"},
    f"/admin/accounts/{ETHEREUM}/devices": {"GET"},
    "/admin/approvals": {"GET"},
    "/admin/approvals/12345678": {"GET"},
    "/admin/wallet/accounts": {"GET"},
    "/admin/wallet/transactions": {"GET"},
    "/admin/wallet/signatures": {"GET"},
    "/admin/outbox": {"GET"},
    "/admin/outbox/1-none": {"GET", "DELETE"},
    "/admin/outbox/1-none/retry": {"POST"},
    "/admin/outbox/retry-dead": {"POST"},
    "/admin/outbox/drop-dead": {"POST"},
    "/admin/webhooks/test": {"POST"},
    "/admin/settings": {"GET"},
}
ENDPOINTS = [(method, path) for path, methods in ROUTES.items() for method in sorted(methods)]
ANSWERS_WITHOUT_ROWS = (
    "/admin/projects",
    f"/admin/accounts/{ETHEREUM}/devices",
    "/admin/approvals",
    "/admin/wallet/accounts",
    "/admin/wallet/transactions",
    "/admin/wallet/signatures",
    "/admin/outbox",
    "/admin/outbox/retry-dead",
    "/admin/outbox/drop-dead",
    "/admin/webhooks/test",
    "/admin/settings",
)
"""Paths that are answered on a server on which nothing has happened."""
VALID_BODIES = {
    ("POST", "/admin/projects"): {"name": "App"},
    ("PUT", f"{PROJECT}/account-limit"): {"per_hour": 1, "burst": 1},
    ("PUT", f"{PROJECT}/webhook"): {"url": "https://app.example/hook"},
    ("POST", f"{PROJECT}/types"): {"name": "News"},
    ("PUT", f"{PROJECT}/types/news"): {"name": "News"},
    ("PUT", f"{PROJECT}/subscribers/{ETHEREUM}"): {},
    ("POST", "/admin/outbox/retry-dead"): {"destination": "https://app.example:443"},
    ("POST", "/admin/outbox/drop-dead"): {"destination": "https://app.example:443"},
    ("POST", "/admin/webhooks/test"): {"url": "http://127.0.0.1:1/nothing-listens-here"},
}
