"""JSON of the settings and of the server's readiness."""

from typing import Any

from bridge_server.admin.settings.service import Report


def report_fields(report: Report) -> dict[str, Any]:
    """Each setting with its value, its origin and whether SIGHUP takes a new one; the parts of /readyz."""
    return {
        "settings": report.settings,
        "ready": {
            "ready": report.failure is None,
            "failure": report.failure,
            "troubles": list(report.troubles),
        },
    }
