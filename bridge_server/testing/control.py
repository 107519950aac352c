"""The client of the control routes of `bridge-server serve --test`, for test suites.

async with Control(url, test_token) as control:
    await control.clock.advance(days=1)
    await control.faults.set([{"where": "fcm", "answer": "UNAVAILABLE", "times": 1}])
    assert (await control.sent(channel="fcm", wait=5))[0].title == "Example"
    await control.reset()
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from bridge_server.testing.control_answers import (
    ClockReading,
    SentMessage,
    Traffic,
    clock_reading,
    sent_message,
    traffic,
)
from bridge_server.version import USER_AGENT

_PATIENCE_SECONDS = 30.0


class ControlRefusedError(Exception):
    """The server refused the request and changed nothing. The text says why; `faults` where."""

    def __init__(self, status: int, detail: str, faults: Sequence[Mapping[str, str]]) -> None:
        places = "".join(f"\n  {fault.get('pointer')}: {fault.get('detail')}" for fault in faults)
        super().__init__(f"The server answered {status}: {detail}{places}")
        self.status = status
        self.faults = faults


class Control:
    """A server in test mode, between `open` and `close`, or inside `async with`.

    `url` and `token` are `url` and `test_token` of the server's ready file.
    """

    def __init__(self, url: str, token: str) -> None:
        self._exchange = _Exchange(url.rstrip("/") + "/_test", token)
        self.clock = ServerClock(self._exchange)
        self.faults = ServerFaults(self._exchange)

    async def __aenter__(self) -> Self:
        self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def open(self) -> None:
        """Get ready for requests. Call it where an event loop runs."""
        self._exchange.open()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._exchange.close()

    async def reset(self) -> datetime:
        """Empty the server; returns its clock's time, which is the machine's again."""
        return datetime.fromisoformat((await self._exchange.send("POST", "/reset"))["now"])

    async def sent(
        self,
        channel: str | None = None,
        topic: str | None = None,
        account: str | None = None,
        wait: float = 0,
    ) -> list[SentMessage]:
        """The messages that left the server, oldest first; waits for the first, at most `wait` seconds."""
        wanted = {"channel": channel, "topic": topic, "account": account}
        query = {name: value for name, value in wanted.items() if value is not None}
        answer = await self._exchange.send("GET", "/sent", query=query, wait_seconds=wait)
        return [sent_message(each) for each in answer["sent"]]

    async def forget_sent(self) -> int:
        """Forget these messages; returns how many there were."""
        deleted: int = (await self._exchange.send("DELETE", "/sent"))["deleted"]
        return deleted

    async def traffic(self, after: int = 0, wait: float = 0) -> Traffic:
        """The requests with a number above `after`; waits for the first, at most `wait` seconds."""
        return traffic(
            await self._exchange.send("GET", "/traffic", query={"after": str(after)}, wait_seconds=wait)
        )


class ServerClock:
    """The server's clock."""

    def __init__(self, exchange: "_Exchange") -> None:
        self._exchange = exchange

    async def now(self) -> ClockReading:
        """The time that the server goes by."""
        return clock_reading(await self._exchange.send("GET", "/clock"))

    async def advance(
        self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> ClockReading:
        """Let time pass; returns when everything that became due is done."""
        duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return await self._put({"advance": duration.total_seconds()})

    async def set(self, now: datetime, *, frozen: bool = False) -> ClockReading:
        """Set the time of day; a frozen clock stands still until it is moved. `now` has a time zone."""
        if now.tzinfo is None:
            raise ValueError("now needs a time zone, such as datetime(2027, 1, 15, tzinfo=UTC)")
        return await self._put({"now": now.isoformat(), "frozen": frozen})

    async def _put(self, fields: Mapping[str, Any]) -> ClockReading:
        return clock_reading(await self._exchange.send("PUT", "/clock", fields))


class ServerFaults:
    """The faults that the server was ordered to have."""

    def __init__(self, exchange: "_Exchange") -> None:
        self._exchange = exchange

    async def set(self, rules: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Replace all rules; returns them with their hits. Raises ControlRefusedError for a wrong rule."""
        return _rules(await self._exchange.send("PUT", "/faults", list(rules)))

    async def list(self) -> list[dict[str, Any]]:
        """The rules, each with its `hits`."""
        return _rules(await self._exchange.send("GET", "/faults"))


class _Exchange:
    """Requests with the token, and their JSON answers."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": USER_AGENT}
        self._http: aiohttp.ClientSession | None = None

    def open(self) -> None:
        if self._http is None:
            self._http = aiohttp.ClientSession(headers=self._headers)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def send(
        self,
        method: str,
        path: str,
        fields: Any = None,
        query: Mapping[str, str] | None = None,
        wait_seconds: float = 0,
    ) -> dict[str, Any]:
        """The answer's document. Raises ControlRefusedError, or aiohttp's ClientError without an answer."""
        if self._http is None:
            raise RuntimeError("Use it inside `async with`, or call open().")
        async with self._http.request(
            method,
            self._url + path,
            params={**(query or {}), **({"wait": f"{wait_seconds:g}"} if wait_seconds else {})},
            data=None if fields is None else orjson.dumps(fields),
            headers={} if fields is None else {"Content-Type": "application/json"},
            timeout=aiohttp.ClientTimeout(total=wait_seconds + _PATIENCE_SECONDS),
        ) as response:
            body = await response.read()
        document = _document(body)
        if response.status != 200:
            detail = document.get("detail") or response.reason or "no reason given"
            raise ControlRefusedError(response.status, detail, document.get("errors", ()))
        return document


def _rules(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(answer["faults"])


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}
