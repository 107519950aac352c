"""The moves of an operator over HTTP, and of the app's backend whose project that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from tests.support.asking import Answer, ServerClient, ask

ADMIN_TOKEN = "the token of the operator"
ETHEREUM = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"


def plain_account(number: int) -> str:
    """One account of many, in a namespace of its own; their order is that of the numbers."""
    return f"test:chain:{number:08d}"


@dataclass(frozen=True, slots=True)
class AdminClient(ServerClient):
    """Speaks to one server that was started with `admin_token=ADMIN_TOKEN`."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {ADMIN_TOKEN}"}

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)

    async def pages(self, path: str, name: str, limit: int) -> list[list[Any]]:
        """The entries of each page of a list, from the first page to the last."""
        pages: list[list[Any]] = []
        after: str | None = ""
        while after is not None:
            joint = "&" if "?" in path else "?"
            page = (await self.get(f"{path}{joint}limit={limit}&after={quote(after)}")).json
            pages.append(page[name])
            after = page["next"]
        return pages

    async def post(self, path: str, fields: Any = None) -> Answer:
        return await self.ask("POST", path, fields)

    async def put(self, path: str, fields: Any) -> Answer:
        return await self.ask("PUT", path, fields)

    async def delete(self, path: str) -> Answer:
        return await self.ask("DELETE", path)

    async def create(self, project_id: str, *types: str) -> str:
        """Make a project with these types; returns its secret."""
        answer = await self.post("/admin/projects", {"name": "App", "project_id": project_id})
        for type_id in types:
            await self.post(f"/admin/projects/{project_id}/types", {"name": "Type", "type_id": type_id})
        return str(answer.json["secret"]["secret"])

    async def subscribe(self, project_id: str, account: str, types: Sequence[str] | None = None) -> Answer:
        fields = {} if types is None else {"notification_types": types}
        return await self.put(f"/admin/projects/{project_id}/subscribers/{account}", fields)

    async def subscribed_types(self, project_id: str) -> dict[str, list[str]]:
        """The types of each account of a project that has at most a thousand."""
        answer = await self.get(f"/admin/projects/{project_id}/subscribers?limit=1000")
        assert answer.json["next"] is None
        return {entry["account"]: entry["notification_types"] for entry in answer.json["subscribers"]}

    async def notify(self, project_id: str, secret: str, type_id: str, *accounts: str, **more: Any) -> Answer:
        notification = {"type": type_id, "title": "Title", "body": "Body"}
        fields = {"notification": notification, "accounts": accounts, **more}
        headers = {"Authorization": f"Bearer {secret}"}
        return await ask(self.server, "POST", f"/{project_id}/notify", orjson.dumps(fields), headers)

    async def opens(self, project_id: str, secret: str) -> bool:
        """Whether the secret is one of the project's, as its backend finds out."""
        status = (await self.notify(project_id, secret, "none", ETHEREUM)).status
        assert status in (400, 401)  # 400: the secret was accepted, and the type is unknown
        return status == 400
