"""The routes of the admin API."""

from collections.abc import Callable

from bridge_server.admin.handlers import AdminHandlers
from bridge_server.web.routes import Handler, Route

_ID = "[^/]{1,128}"
_PROJECTS = "/admin/projects"
_PROJECT = f"{_PROJECTS}/{{project_id:{_ID}}}"
_SECRET = f"{_PROJECT}/secrets/{{number:[0-9]{{1,18}}}}"
_TYPE = f"{_PROJECT}/types/{{type_id:{_ID}}}"
# An account id has at most 170 characters. Up to 128 of them are percent signs, which arrive as %25.
_ACCOUNT = "{account:[^/]{1,426}}"
_SUBSCRIBER = f"{_PROJECT}/subscribers/{_ACCOUNT}"


def admin_routes(
    handlers: AdminHandlers, bearer: Callable[[str], bool], body_limit_bytes: int
) -> tuple[Route, ...]:
    """Every endpoint of the admin API. It requires the admin token, and no web page may call it."""

    def read(path: str, name: str, handler: Handler) -> Route:
        return Route(method="GET", path=path, name=name, handler=handler, bearer=bearer, who="operator")

    def write(method: str, path: str, name: str, handler: Handler) -> Route:
        return Route(
            method=method, path=path, name=name, handler=handler,
            body_limit_bytes=body_limit_bytes, bearer=bearer, who="operator",
        )  # fmt: skip

    return (
        read(_PROJECTS, "projects", handlers.every_project),
        write("POST", _PROJECTS, "create-project", handlers.create_project),
        read(_PROJECT, "project", handlers.project),
        write("DELETE", _PROJECT, "delete-project", handlers.delete_project),
        write("POST", f"{_PROJECT}/secrets", "rotate-secret", handlers.rotate_secret),
        write("DELETE", _SECRET, "revoke-secret", handlers.revoke_secret),
        write("PUT", f"{_PROJECT}/account-limit", "limit-accounts", handlers.limit_accounts),
        write("DELETE", f"{_PROJECT}/account-limit", "reset-account-limit", handlers.reset_account_limit),
        write("PUT", f"{_PROJECT}/webhook", "set-project-webhook", handlers.set_webhook),
        write("DELETE", f"{_PROJECT}/webhook", "remove-project-webhook", handlers.remove_webhook),
        read(f"{_PROJECT}/types", "types", handlers.types),
        write("POST", f"{_PROJECT}/types", "add-type", handlers.add_type),
        write("PUT", _TYPE, "rename-type", handlers.rename_type),
        write("DELETE", _TYPE, "remove-type", handlers.remove_type),
        read(f"{_PROJECT}/subscribers", "project-subscribers", handlers.subscribers),
        write("PUT", _SUBSCRIBER, "subscribe-account", handlers.subscribe),
        write("DELETE", _SUBSCRIBER, "unsubscribe-account", handlers.unsubscribe),
        read(f"{_PROJECT}/analytics", "analytics", handlers.analytics),
        read(f"/admin/accounts/{_ACCOUNT}/devices", "account-devices", handlers.devices),
    )
