"""The projects' routes in the admin API."""

from bridge_server.admin.projects.handlers import ProjectHandlers
from bridge_server.admin.rows import ANY_ACCOUNT, ANY_ID, AdminRows
from bridge_server.web.routes import Route

_PROJECTS = "/admin/projects"
_PROJECT = f"{_PROJECTS}/{{project_id:{ANY_ID}}}"
_SECRET = f"{_PROJECT}/secrets/{{number:[0-9]{{1,18}}}}"
_TYPE = f"{_PROJECT}/types/{{type_id:{ANY_ID}}}"
_ACCOUNT = f"{{account:{ANY_ACCOUNT}}}"
_SUBSCRIBER = f"{_PROJECT}/subscribers/{_ACCOUNT}"


def project_routes(handlers: ProjectHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """Projects with what belongs to them, and the devices of an account."""
    read, write = rows.read, rows.write
    return (
        read(_PROJECTS, "projects", handlers.listed),
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
