"""The page of the settings that hold now, and of the parts of `/readyz`."""

from collections.abc import Mapping
from typing import Any

from bridge_server.admin.settings.service import SettingsDesk
from bridge_server.admin.settings.wire import report_fields
from bridge_server.console.models import Asked, ConsolePage, NavigationGroup, PagePath, View


class SettingsPage:
    """Shows every setting with its value and its source."""

    def __init__(self, desk: SettingsDesk) -> None:
        self._desk = desk

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        return ConsolePage(
            "settings", "Settings", NavigationGroup.SERVER, (PagePath("/settings", self.show),)
        )

    async def show(self, asked: Asked) -> View:
        """The settings whose name or source has the text that is searched for."""
        report, search = report_fields(await self._desk.report()), asked.query.get("search", "").strip()
        found = {name: row for name, row in report["settings"].items() if _fits(name, row, search.lower())}
        return View("settings/settings.html", {"settings": found, "ready": report["ready"], "search": search})


def _fits(name: str, row: Mapping[str, Any], search: str) -> bool:
    return search in name or search in row["origin"].lower()
