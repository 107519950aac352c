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
    "/admin/traffic": {"GET"},
    "/admin/traffic/1": {"GET"},
    "/admin/traffic/calls/handle": {"GET"},
    "/admin/clients": {"GET"},
    "/admin/clients/192.0.2.1": {"GET"},
    "/admin/sessions": {"GET"},
    "/admin/sessions/handle": {"GET", "DELETE"},
    "/admin/stats": {"GET"},
}
ENDPOINTS = [(method, path) for path, methods in ROUTES.items() for method in sorted(methods)]
NEEDS_NO_PROJECT = (
    "/admin/projects",
    f"/admin/accounts/{ETHEREUM}/devices",
    "/admin/clients",
    "/admin/clients/192.0.2.1",
    "/admin/sessions",
    "/admin/stats",
)
VALID_BODIES = {
    ("POST", "/admin/projects"): {"name": "App"},
    ("PUT", f"{PROJECT}/account-limit"): {"per_hour": 1, "burst": 1},
    ("PUT", f"{PROJECT}/webhook"): {"url": "https://app.example/hook"},
    ("POST", f"{PROJECT}/types"): {"name": "News"},
    ("PUT", f"{PROJECT}/types/news"): {"name": "News"},
    ("PUT", f"{PROJECT}/subscribers/{ETHEREUM}"): {},
}
