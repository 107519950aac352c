"""The approvals' routes in the admin API."""

from bridge_server.admin.approvals.handlers import ApprovalHandlers
from bridge_server.admin.rows import ANY_ID, AdminRows
from bridge_server.web.routes import Route

_APPROVALS = "/admin/approvals"
_APPROVAL = f"{_APPROVALS}/{{id:{ANY_ID}}}"


def approval_routes(handlers: ApprovalHandlers, rows: AdminRows, *, may_sign: bool) -> tuple[Route, ...]:
    """Requests that wait and that are settled. Only with `may_sign` can they be decided here."""
    shown = (
        rows.read(_APPROVALS, "approvals", handlers.approvals),
        rows.read(_APPROVAL, "approval", handlers.approval),
    )
    if not may_sign:
        return shown
    return (
        *shown,
        rows.write("POST", f"{_APPROVAL}/approve", "approve", handlers.approve),
        rows.write("POST", f"{_APPROVAL}/reject", "reject", handlers.reject),
    )
