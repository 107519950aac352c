"""A server in test mode: its control routes, and a process of its own that a test kills and starts again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import IO, Any, Self

import aiohttp
import orjson

from bridge_server.kernel.version import USER_AGENT
from bridge_server.storage.migrate import migrate, packaged_migrations

_PATIENCE_SECONDS = 30.0
_START_SECONDS = 60.0
_STOP_SECONDS = 60.0
_CHECK_EVERY_SECONDS = 0.01
_LAST_BYTES = 64 * 1024
_OF_SYSTEMD = ("CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "STATE_DIRECTORY")


# The control routes of `serve --test`, and their answers as values.


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The server's clock after a move: `swept` rows had expired, and `delivered` messages were due."""

    now: datetime
    frozen: bool
    swept: int = 0
    delivered: int = 0


@dataclass(frozen=True, slots=True)
class SentMessage:
    """One attempt to deliver a message. `outcome` is `delivered`, `failed` or `gone`, with a `reason`.

    `headers` are a webhook's, with the signature. `payload` is the JSON that was sent.
    """

    id: str
    channel: str
    at: datetime
    outcome: str
    payload: Any
    reason: str | None = None
    topic: str | None = None
    account: str | None = None
    url: str | None = None
    token: str | None = None
    title: str | None = None
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that the server answered. `who` is the side that sent it, such as `dapp` or `wallet`.

    `milliseconds` is the time until the answer; `waited` is how many seconds a long poll was held.
    `request` and `answer` hold headers and bodies. A member that the server adds later is in `more`.
    """

    number: int
    at: datetime
    who: str
    method: str
    path: str
    route: str
    status: int
    milliseconds: float
    waited: float
    summary: str
    request: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests, oldest first, and the `last` number: the next reading goes on after it."""

    requests: list[RecordedRequest]
    last: int


class ControlRefusedError(Exception):
    """The server refused the request and changed nothing. The text says why; `faults` where."""

    def __init__(self, status: int, detail: str, faults: Sequence[Mapping[str, str]]) -> None:
        places = "".join(f"\n  {fault.get('pointer')}: {fault.get('detail')}" for fault in faults)
        super().__init__(f"The server answered {status}: {detail}{places}")
        self.status = status
        self.faults = faults


class Control:
    """A server in test mode, inside `async with`; `url` and `token` are in the server's ready file."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/") + "/_test"
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": USER_AGENT}
        self._http: aiohttp.ClientSession | None = None
        self.clock = ServerClock(self)
        self.faults = ServerFaults(self)

    async def __aenter__(self) -> Self:
        self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def open(self) -> None:
        """Get ready for requests. Call it where an event loop runs."""
        if self._http is None:
            self._http = aiohttp.ClientSession(headers=self._headers)

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def reset(self) -> datetime:
        """Empty the server; returns its clock's time, which is the machine's again."""
        return datetime.fromisoformat((await self.send("POST", "/reset"))["now"])

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
        answer = await self.send("GET", "/sent", query=query, wait_seconds=wait)
        return [_sent_message(each) for each in answer["sent"]]

    async def forget_sent(self) -> int:
        """Forget these messages; returns how many there were."""
        deleted: int = (await self.send("DELETE", "/sent"))["deleted"]
        return deleted

    async def traffic(self, after: int = 0, wait: float = 0) -> Traffic:
        """The requests with a number above `after`; waits for the first, at most `wait` seconds."""
        answer = await self.send("GET", "/traffic", query={"after": str(after)}, wait_seconds=wait)
        return Traffic([_recorded(each) for each in answer["requests"]], answer["last"])

    async def send(
        self,
        method: str,
        path: str,
        fields: Any = None,
        query: Mapping[str, str] | None = None,
        wait_seconds: float = 0,
    ) -> dict[str, Any]:
        """Send a request below `/_test`; the answer's document. Raises ControlRefusedError, ClientError."""
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
            document = _document(await response.read())
        if response.status != 200:
            detail = document.get("detail") or response.reason or "no reason given"
            raise ControlRefusedError(response.status, detail, document.get("errors", ()))
        return document


class ServerClock:
    """The server's clock."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def now(self) -> ClockReading:
        """The time that the server goes by."""
        return _clock_reading(await self._control.send("GET", "/clock"))

    async def advance(
        self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> ClockReading:
        """Let time pass; returns once everything that became due has been processed."""
        duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return await self._put({"advance": duration.total_seconds()})

    async def set(self, now: datetime, *, frozen: bool = False) -> ClockReading:
        """Set the time of day; a frozen clock stops until it is moved. `now` has a time zone."""
        if now.tzinfo is None:
            raise ValueError("now needs a time zone, such as datetime(2027, 1, 15, tzinfo=UTC)")
        return await self._put({"now": now.isoformat(), "frozen": frozen})

    async def _put(self, fields: Mapping[str, Any]) -> ClockReading:
        return _clock_reading(await self._control.send("PUT", "/clock", fields))


class ServerFaults:
    """The faults that the server was ordered to have."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def set(self, rules: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Replace all rules; returns them with their hits. Raises ControlRefusedError for a wrong rule."""
        return list((await self._control.send("PUT", "/faults", list(rules)))["faults"])

    async def list(self) -> list[dict[str, Any]]:
        """The rules, each with its `hits`."""
        return list((await self._control.send("GET", "/faults"))["faults"])


def _clock_reading(document: Mapping[str, Any]) -> ClockReading:
    swept, delivered = document.get("swept", 0), document.get("delivered", 0)
    return ClockReading(datetime.fromisoformat(document["now"]), document["frozen"], swept, delivered)


def _sent_message(document: Mapping[str, Any]) -> SentMessage:
    """One element of `sent`. A member that is not known is ignored."""
    known = {name: document[name] for name in SentMessage.__slots__ if name in document}
    return SentMessage(**{**known, "at": datetime.fromisoformat(document["at"])})


def _recorded(document: Mapping[str, Any]) -> RecordedRequest:
    known = {name: document[name] for name in RecordedRequest.__slots__ if name in document}
    more = {name: value for name, value in document.items() if name not in known}
    return RecordedRequest(**{**known, "at": datetime.fromisoformat(document["at"]), "more": more})


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


# A server in a process of its own, which a test kills and starts again.


class ServerStartError(Exception):
    """The server ended before it answered, or did not answer in time. The text has the end of its log."""


class ServerProcess:
    """`bridge-server serve` over `data_dir`, at first on a free port.

    `arguments` follow the command's own. The process inherits the environment of this one without the
    settings of a server in it, and with the variables in `environment`.
    """

    def __init__(self, data_dir: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.facts: dict[str, Any] = {}
        self._arguments: Sequence[str] = arguments
        self.environment = {**environment_without_settings(), **(environment or {})}
        self._ready_file = data_dir.parent / f"{data_dir.name}.ready"
        self._log_file = data_dir.parent / f"{data_dir.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The URL of the server."""
        url: str = self.facts["url"]
        return url

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that was started last."""
        assert self._process is not None, "start it first"
        return self._process

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """The last of what every start has written to standard error."""
        return _end_of(self._log_file)

    def start(self) -> None:
        """Start it, and return once it answers. Raises ServerStartError."""
        self._ready_file.unlink(missing_ok=True)
        places = ["--data-dir", str(self.data_dir), "--ready-file", str(self._ready_file)]
        with self._log_file.open("ab") as log:
            self._process = self.launch(["serve", "--port", str(self._port), *places, *self._arguments], log)
        try:
            self.facts = facts_once_ready(self._process, self._ready_file, self._log_file)
        except BaseException:
            self.kill()
            raise
        self._port = int(self.url.rpartition(":")[2])

    def launch(self, arguments: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """A process that runs `bridge-server` with the arguments and writes its log to `log`."""
        return subprocess.Popen(  # noqa: S603 - the command is this program's own
            [sys.executable, "-m", "bridge_server", *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )

    def kill(self) -> None:
        """End it with SIGKILL, as a crash does."""
        self.process.kill()
        self.process.wait(_STOP_SECONDS)

    def stop(self) -> int:
        """End it with SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_SECONDS)

    def restart(self) -> None:
        """Stop it if it runs, and start it again at the same URL. Raises ServerStartError."""
        if self.is_running:
            self.stop()
        self.start()

    def close(self) -> None:
        """End it if it runs."""
        if self.is_running:
            self.kill()


def facts_once_ready(process: subprocess.Popen[bytes], ready_file: Path, log_file: Path) -> dict[str, Any]:
    """The content of the ready file, once the server has written it. Raises ServerStartError."""
    deadline = monotonic() + _START_SECONDS
    while not ready_file.exists():
        if process.poll() is not None:
            raise ServerStartError(f"it ended with exit code {process.returncode}: {_end_of(log_file)}")
        if monotonic() > deadline:
            raise ServerStartError(f"it was not ready within {_START_SECONDS:.0f} s: {_end_of(log_file)}")
        sleep(_CHECK_EVERY_SECONDS)
    facts: dict[str, Any] = json.loads(ready_file.read_bytes())
    return facts


def _end_of(log_file: Path) -> str:
    with log_file.open("rb") as stream:
        stream.seek(max(0, log_file.stat().st_size - _LAST_BYTES))
        return stream.read().decode(errors="replace")


def environment_without_settings() -> dict[str, str]:
    """The environment of this process without a server's settings, which the machine may have."""
    kept = (name for name in os.environ if not name.startswith("BRIDGE_") and name not in _OF_SYSTEMD)
    return {name: os.environ[name] for name in kept}


# A database with the newest schema, without the time that it takes to make one.


def place_schema(file: Path) -> None:
    """Put an empty database there, as a first start would, unless something is there already.

    A test suite starts many servers in one process: the migrations run once, and each server gets a copy.
    """
    if file.exists():
        return
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_bytes(_newest_schema())


@cache
def _newest_schema() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "empty.sqlite3"
        migrate(file, packaged_migrations())
        return file.read_bytes()
