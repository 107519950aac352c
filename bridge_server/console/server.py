"""The pages of the group Server: clients with their limits, and settings."""

from typing import Any, get_args
from urllib.parse import quote, urlencode

from bridge_server.admin.clients import USUAL_PERIOD, ClientAdmin, read_by
from bridge_server.admin.other_processes import Neighbours
from bridge_server.admin.server import SettingsAdmin
from bridge_server.console.models import ROOT, Asked, ConsolePage, PagePath, View
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.web.recorder import By

_CLIENTS = "/clients"
_CLIENT = f"{_CLIENTS}/{{address:[^/]{{1,128}}}}"
_LIVE = ("observed",)
_SHOWN = 50
_PERIODS = {"5m": "5 minutes", "1h": "an hour", "start": "since the start"}


class ClientsPage:
    """Views of clients."""

    def __init__(self, clients: ClientAdmin) -> None:
        self._clients = clients
        paths = (PagePath(_CLIENTS, self.show_all), PagePath(_CLIENT, self.show))
        self.page = ConsolePage("clients", "Clients and limits", "Server", paths)

    async def show_all(self, asked: Asked) -> View:
        """The addresses with the most of one figure."""
        return await self._view(asked, {})

    async def show(self, asked: Asked) -> View:
        """One address: its requests, and the rest of its limits."""
        return await self._view(asked, {"client": await self._clients.details(asked.names["address"])})

    async def _view(self, asked: Asked, more: dict[str, Any]) -> View:
        error = None
        try:
            by, last = read_by(asked.query), asked.query.get("last", USUAL_PERIOD)
            listed = await self._clients.heaviest(by, last, _SHOWN)
        except InvalidInputError as refused:
            by, last, error = read_by({}), USUAL_PERIOD, refused
            listed = await self._clients.heaviest(by, last, _SHOWN)
        fields = {
            **listed,
            **more,
            "by": by,
            "last": last,
            "figures": get_args(By),
            "periods": _PERIODS,
            "query": f"?{urlencode({'by': by, 'last': last})}",
            "path_of": _path_of,
        }
        return View("clients/clients.html", fields, _LIVE, error)


def _path_of(address: str) -> str:
    """The page of an address; the page of an IPv6 network has the network's first address."""
    return f"{ROOT}{_CLIENTS}/{quote(address.removesuffix('/64'), safe=':')}"


class SettingsPage:
    """Shows every setting of this process with its value and its source, and the parts of `/readyz`."""

    def __init__(self, settings: SettingsAdmin, neighbours: Neighbours | None) -> None:
        self._settings, self._neighbours = settings, neighbours
        path = PagePath("/settings", self.show)
        self.page = ConsolePage("settings", "Settings", "Server", (path,))

    async def show(self, asked: Asked) -> View:
        """The settings whose name or source has the text that is searched for."""
        report, search = await self._settings.report(), asked.query.get("search", "").strip()
        wanted = search.lower()
        found = {
            name: row
            for name, row in report["settings"].items()
            if wanted in name or wanted in row["origin"].lower()
        }
        process = None if self._neighbours is None else self._neighbours.own_number
        fields = {"settings": found, "ready": report["ready"], "search": search, "process": process}
        return View("settings/settings.html", fields)
