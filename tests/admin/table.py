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
    f"{PROJECT}/notifications": {"GET"},
    f"{PROJECT}/notifications/1": {"GET"},
    f"{PROJECT}/notify": {"POST"},
    f"/admin/accounts/{ETHEREUM}": {"GET"},
    f"/admin/accounts/{ETHEREUM}/inbox": {"GET"},
    f"/admin/accounts/{ETHEREUM}/inbox/read": {"POST"},
    f"/admin/accounts/{ETHEREUM}/devices": {"GET"},
}
ENDPOINTS = [(method, path) for path, methods in ROUTES.items() for method in sorted(methods)]
NEEDS_NO_PROJECT = tuple(path for path in ROUTES if not path.startswith(PROJECT))
VALID_BODIES = {
    ("POST", "/admin/projects"): {"name": "App"},
    ("PUT", f"{PROJECT}/account-limit"): {"per_hour": 1, "burst": 1},
    ("PUT", f"{PROJECT}/webhook"): {"url": "https://app.example/hook"},
    ("POST", f"{PROJECT}/types"): {"name": "News"},
    ("PUT", f"{PROJECT}/types/news"): {"name": "News"},
    ("PUT", f"{PROJECT}/subscribers/{ETHEREUM}"): {},
    ("POST", f"{PROJECT}/notify"): {
        "notification": {"type": "news", "title": "Title", "body": "Body"},
        "audience": {"accounts": [ETHEREUM]},
    },
    ("POST", f"/admin/accounts/{ETHEREUM}/inbox/read"): {"ids": ["1"]},
}
