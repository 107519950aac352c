"""Many clients that write, and a ledger of what they were answered: the server owes all of it for ever."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import aiohttp


@dataclass(slots=True)
class Content:
    """Something that is replaced again and again by one client.

    `answered` is the last that the server acknowledged, `asked` what was sent after it and not answered:
    that may be stored or not.
    """

    answered: str | None = None
    asked: str | None = None

    def may_be(self, found: str | None) -> bool:
        """Whether the server may say this after a crash."""
        return found == self.answered or (self.asked is not None and found == self.asked)


@dataclass(slots=True)
class Ledger:
    """The writes that were answered 200, by id."""

    sessions: dict[str, Content] = field(default_factory=dict)
    calls: dict[tuple[str, str], str] = field(default_factory=dict)
    statuses: dict[str, Content] = field(default_factory=dict)
    answers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self) -> None:
        """Another 200."""
        self.answers += 1
        self.changed.set()

    async def reaches(self, answers: int, within_seconds: float = 60.0) -> None:
        """Return once there were so many answers; raises TimeoutError when there are not in time."""
        try:
            async with asyncio.timeout(within_seconds):
                while self.answers < answers:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            found = f"{self.answers} of {answers} writes were answered in {within_seconds:g} s"
            raise TimeoutError(f"{found}: the server refuses them, or the load has ended") from None


class WriteLoad:
    """Clients that write until their server is gone."""

    def __init__(self, client: aiohttp.ClientSession, url: str, ledger: Ledger, chance: Random) -> None:
        self._client = client
        self._url = url
        self._ledger = ledger
        self._chance = chance

    async def run(self, clients: int) -> None:
        """Write with so many at once; returns when the server no longer answers any."""
        await asyncio.gather(*(self._write_until_refused(number) for number in range(clients)))

    async def _write_until_refused(self, number: int) -> None:
        count = 0
        with suppress(aiohttp.ClientError):
            while True:
                count += 1
                await self._talk(f"client {number} talk {count}")

    async def _talk(self, name: str) -> None:
        session_id = (await self._send("POST", "/session/new"))["sessionId"]
        session = self._ledger.sessions[session_id] = Content()
        self._ledger.count()
        for turn in range(self._chance.randint(1, 3)):
            await self._replace(session, "PUT", f"/session/{session_id}", f"{name} session {turn}")
        for turn in range(self._chance.randint(1, 4)):
            await self._call(session_id, f"{name} call {turn}")

    async def _call(self, session_id: str, payload: str) -> None:
        body = {"encryptionPayload": payload, "dappName": "Dapp"}
        call_id = (await self._send("POST", f"/session/{session_id}/call/new", body))["callId"]
        self._ledger.calls[session_id, call_id] = payload
        status = self._ledger.statuses[call_id] = Content()
        self._ledger.count()
        for turn in range(self._chance.randint(0, 2)):
            await self._replace(status, "POST", f"/call-status/{call_id}/new", f"{payload} status {turn}")

    async def _replace(self, content: Content, method: str, path: str, payload: str) -> None:
        content.asked = payload
        await self._send(method, path, {"encryptionPayload": payload})
        content.answered, content.asked = payload, None
        self._ledger.count()

    async def _send(self, method: str, path: str, body: object = None) -> dict[str, str]:
        async with self._client.request(method, f"{self._url}{path}", json=body) as response:
            assert response.status == 200, await response.text()
            answer: dict[str, str] = await response.json()
            return answer


class PatientLoad(WriteLoad):
    """Clients that ask again when they are told to come back, until their server is gone."""

    async def _send(self, method: str, path: str, body: object = None) -> dict[str, str]:
        while True:
            async with self._client.request(method, f"{self._url}{path}", json=body) as response:
                if response.status == 200:
                    answer: dict[str, str] = await response.json()
                    return answer
                assert response.status == 503, await response.text()
                assert int(response.headers["Retry-After"]) >= 1
            await asyncio.sleep(0.02)
