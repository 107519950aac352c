"""A backend that publishes with all its might, and a ledger of what it was answered."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import aiohttp


@dataclass(slots=True)
class Sendings:
    """Answers by notification id: every account in `sent` must keep its notification.

    `asked` are the accounts of calls that may or may not have been taken.
    """

    sent: dict[str, set[str]] = field(default_factory=dict)
    asked: dict[str, set[str]] = field(default_factory=dict)
    answers: int = 0


class NotifyLoad:
    """Calls notify for several projects until the server is gone; ids come again and again."""

    def __init__(
        self,
        client: aiohttp.ClientSession,
        url: str,
        secrets: Sequence[tuple[str, str]],
        accounts: Sequence[str],
        chance: Random,
    ) -> None:
        self.ledgers = {project_id: Sendings() for project_id, _ in secrets}
        self._client = client
        self._url = url
        self._secrets = secrets
        self._accounts = accounts
        self._chance = chance
        self._progress = asyncio.Event()

    @property
    def answers(self) -> int:
        """How many calls were answered 200."""
        return sum(ledger.answers for ledger in self.ledgers.values())

    async def run(self) -> None:
        """One caller for each project; returns when the server no longer answers any."""
        await asyncio.gather(*(self._call_until_refused(*each) for each in self._secrets))

    async def reaches(self, answers: int) -> None:
        """Return once so many calls were answered."""
        while self.answers < answers:
            self._progress.clear()
            await self._progress.wait()

    async def _call_until_refused(self, project_id: str, secret: str) -> None:
        ledger = self.ledgers[project_id]
        headers = {"Authorization": f"Bearer {secret}"}
        with suppress(aiohttp.ClientError):
            while True:
                notification_id = f"id {self._chance.randint(1, 12)}"
                wanted = self._chance.sample(self._accounts, self._chance.randint(1, 60))
                ledger.asked.setdefault(notification_id, set()).update(wanted)
                content = {"type": "news", "title": notification_id, "body": "Body"}
                body = {"notification_id": notification_id, "notification": content, "accounts": wanted}
                url = f"{self._url}/{project_id}/notify"
                async with self._client.post(url, json=body, headers=headers) as response:
                    if response.status == 429:
                        await asyncio.sleep(0.05)
                        continue
                    assert response.status == 200, await response.text()
                    outcome = await response.json()
                assert outcome["not_found"] == []
                ledger.sent.setdefault(notification_id, set()).update(outcome["sent"])
                ledger.answers += 1
                self._progress.set()
