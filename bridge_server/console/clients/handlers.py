"""The page of clients: the heaviest addresses, and one of them with its token buckets."""

from typing import Any, get_args
from urllib.parse import quote, urlencode

from bridge_server.admin.clients import wire
from bridge_server.admin.clients.gathering import ClientsEverywhere
from bridge_server.console.models import ROOT, Asked, ConsolePage, NavigationGroup, PagePath, View
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.web.clients import By

_CLIENTS = "/clients"
_CLIENT = f"{_CLIENTS}/{{address:[^/]{{1,128}}}}"
_LIVE = ("observed",)
_SHOWN = 50
_PERIODS = {"5m": "5 minutes", "1h": "an hour", "start": "since the start"}


class ClientsPage:
    """Views of clients."""

    def __init__(self, clients: ClientsEverywhere) -> None:
        self._clients = clients

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        return ConsolePage(
            "clients",
            "Clients and limits",
            NavigationGroup.SERVER,
            (PagePath(_CLIENTS, self.show_all), PagePath(_CLIENT, self.show)),
        )

    async def show_all(self, asked: Asked) -> View:
        """The addresses with the most of one figure."""
        return await self._view(asked, {})

    async def show(self, asked: Asked) -> View:
        """One address: its requests, and the rest of its limits."""
        return await self._view(asked, {"client": await self._clients.details(asked.names["address"])})

    async def _view(self, asked: Asked, more: dict[str, Any]) -> View:
        error = None
        try:
            by, last = wire.read_by(asked.query), wire.read_last(asked.query)
            listed = await self._clients.heaviest(by, last, _SHOWN)
        except InvalidInputError as refused:
            by, last, error = wire.read_by({}), wire.read_last({}), refused
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
