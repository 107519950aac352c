"""Clients of all processes on a database: each process keeps the figures of those that came to it."""

from collections.abc import Sequence
from urllib.parse import quote

from bridge_server.admin.clients import wire
from bridge_server.admin.clients.service import ClientViews
from bridge_server.admin.neighbours import Fields, Neighbours, Question, Reply, of_all
from bridge_server.web.clients import By

_CLIENTS = "/admin/clients"


class ClientsEverywhere:
    """What all processes together know of clients, or one of them. Without `neighbours` there is but one."""

    def __init__(self, views: ClientViews, neighbours: Neighbours | None) -> None:
        self._views = views
        self.neighbours = neighbours

    async def heaviest(self, by: By, last: str, limit: int, process: str | int | None = None) -> Fields:
        """The clients with the most in the period `last`, the heaviest first. Raises InvalidInputError."""
        last_seconds = wire.read_last_seconds({"last": last})

        async def own() -> Fields:
            return wire.list_fields(self._views.heaviest(by, limit, last_seconds))

        def merged(number: int, mine: Fields, replies: Sequence[Reply]) -> Fields:
            return wire.merged_list(number, mine, replies, by, limit)

        question = Question(_CLIENTS, {"by": by, "last": last, "limit": str(limit)})
        return await of_all(self.neighbours, process, question, own, merged)

    async def details(self, address: str, process: str | int | None = None) -> Fields:
        """One client. Raises InvalidInputError."""

        async def own() -> Fields:
            return wire.details_fields(await self._views.details(address))

        question = Question(f"{_CLIENTS}/{quote(address, safe=':')}")
        return await of_all(self.neighbours, process, question, own, wire.merged_details)
