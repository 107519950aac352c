"""Figures and lists that processes keep in memory: one asks the others, and merges their answers."""

import asyncio
import re
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any, Generic, NamedTuple, TypeAlias, TypeVar

import aiohttp
import orjson
from aiohttp import web

from bridge_server.admin.rows import read_after
from bridge_server.kernel.errors import InvalidInputError, NotFoundError, UnavailableError
from bridge_server.kernel.instants import milliseconds_of
from bridge_server.kernel.version import USER_AGENT
from bridge_server.storage.database import Process
from bridge_server.web.routes import Parameter
from bridge_server.web.shapes import Count, TypedDict, text

Fields: TypeAlias = Any
"""The members of an answer: a TypedDict of its subject, or JSON that another process has answered."""
Answer = TypeVar("Answer")
WantedProcess: TypeAlias = str | int | None
"""The process of which an answer is wanted: `own`, a number, or None for all of them together."""

OWN = "own"
_ADDRESSEE = "Bridge-Process"
_ANSWER_SECONDS = 2.0
_LONGEST_ANSWER_BYTES = 8 * 2**20
_MOST_PROCESSES = 64
_STATUS = "answered with status {}"
_NOT_FOUND = _STATUS.format(404)
_UNKNOWN_HERE = "is not asked: processes know each other by admin_token, which is not set"
_STREAM = aiohttp.ClientTimeout(total=None, sock_connect=2.0, sock_read=40.0)
"""A stream that is not over has a comment every 15 seconds."""


class ProcessAnswer(TypedDict):
    """A process that the answer is made of; the URL is null for the process that answers.

    The fault says why the figures of a process are missing.
    """

    number: Count
    url: Annotated[str, text("http://10.0.0.5:8080")] | None
    fault: Annotated[str, text("did not answer within 2 s")] | None


PROCESS = Parameter(
    "process",
    "The number of one process, where several share a PostgreSQL database, or `own` for the process that "
    "answers; by default all together.",
    {"type": "string", "pattern": "^([0-9]{1,15}|own)$"},
)


class Reply(NamedTuple):
    """The answer of a process, or the reason why there is none."""

    number: int
    url: str
    fields: Fields | None
    fault: str | None = None


Pages: TypeAlias = Mapping[int, Fields]
"""The answer of each process that has answered, by its number; the first is of the process that merges."""

Question: TypeAlias = tuple[str, Mapping[str, str]]
"""A path of the admin API and the query with which other processes are asked."""


class Neighbours:
    """The processes on the database, of which this is one."""

    def __init__(
        self,
        processes: Callable[[], Awaitable[Sequence[Process]]],
        own_number: Callable[[], int],
        token: Callable[[], str | None],
    ) -> None:
        """`token` is the bearer token that all processes accept."""
        self._processes, self._own_number, self._token = processes, own_number, token
        self._client: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=0)  # streams must not keep questions waiting
        headers = {"User-Agent": USER_AGENT}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as client:
            self._client = client
            try:
                yield
            finally:
                self._client = None

    @property
    def own_number(self) -> int:
        return self._own_number()

    async def others(self) -> Sequence[Process]:
        """The other processes: those that run, and those that are silent."""
        last_at = {each.url: each for each in await self._processes()}  # one that has crashed gave its URL up
        found = [each for each in last_at.values() if each.number != self.own_number]
        return [each for each in found if each.state != "stopped"][:_MOST_PROCESSES]

    async def ask_all(self, path: str, queries: Callable[[int], Mapping[str, str] | None]) -> list[Reply]:
        """The replies of the others to GET, within two seconds; a process without a query is not asked."""
        return await asyncio.gather(*await self.questions(path, queries))

    async def questions(
        self, path: str, queries: Callable[[int], Mapping[str, str] | None], wait_seconds: float = 0.0
    ) -> list[Coroutine[Any, Any, Reply]]:
        """The questions that `ask_all` awaits, one for each process; it has `wait_seconds` more."""
        asked = [(each, query) for each in await self.others() if (query := queries(each.number)) is not None]
        return [self._ask(each, path, query, wait_seconds) for each, query in asked]

    async def ask_one(
        self, number: int, path: str, query: Mapping[str, str], wait_seconds: float = 0.0
    ) -> Fields:
        """The reply of one process. Raises InvalidInputError, NotFoundError, UnavailableError."""
        process = await self.find(number)
        reply = await self._ask(process, path, query, wait_seconds)
        if reply.fault == _NOT_FOUND:
            raise NotFoundError(f"Process {number} {reply.fault}: it has not what you ask for.")
        if reply.fields is None:
            raise UnavailableError(f"Process {number}, {process.url}, {reply.fault}.", 2)
        return reply.fields

    async def find(self, number: int) -> Process:
        """Another process. Raises InvalidInputError."""
        for process in await self.others():
            if process.number == number:
                return process
        raise InvalidInputError(
            f"No process {number} runs on the database: bridge-server processes lists them."
        )

    @asynccontextmanager
    async def stream(
        self, process: Process, path: str, query: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterable[bytes]]:
        """The lines of a stream of events. Raises UnavailableError, also inside of the block."""
        if not self._token():
            raise UnavailableError(_UNKNOWN_HERE, 2)
        try:
            async with self._get(process, path, query, _STREAM) as response:
                if response.status != web.HTTPOk.status_code:
                    raise UnavailableError(_STATUS.format(response.status), 2)
                yield response.content
        except (aiohttp.ClientError, OSError, ValueError, LookupError, TypeError) as error:
            # A line that is too long is a ValueError; another version of the program may write other fields.
            raise UnavailableError(f"cannot be read: {error}", 2) from error

    async def _ask(self, process: Process, path: str, query: Mapping[str, str], wait_seconds: float) -> Reply:
        fields: Fields = None
        fault: str | None = _UNKNOWN_HERE
        if self._token():
            fault = f"has not been seen for {process.seen_seconds_ago:.0f} s"
            if process.is_running:
                timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS + wait_seconds)
                fields, fault = await self._got(process, path, query, timeout)
        return Reply(process.number, process.url, fields, fault)

    def _get(
        self, process: Process, path: str, query: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        assert self._client is not None, "the neighbours are asked while the server runs"
        headers = {
            "Authorization": f"Bearer {self._token()}",
            # A name of the internal network need not be among the hosts that web pages may reach.
            "Host": "localhost",
            _ADDRESSEE: str(process.number),
        }
        url, params = process.url + path, {**query, "process": OWN}
        return self._client.get(url, params=params, headers=headers, timeout=timeout, allow_redirects=False)

    async def _got(
        self, process: Process, path: str, query: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> tuple[Fields | None, str | None]:
        try:
            async with self._get(process, path, query, timeout) as response:
                if response.status != web.HTTPOk.status_code:
                    return None, _STATUS.format(response.status)
                content = await response.content.read(_LONGEST_ANSWER_BYTES)
                while not response.content.at_eof() and len(content) < _LONGEST_ANSWER_BYTES:
                    content += await response.content.read(_LONGEST_ANSWER_BYTES - len(content))
                fields = orjson.loads(content)
        except TimeoutError:
            return None, f"did not answer within {_ANSWER_SECONDS:.0f} s"
        except (aiohttp.ClientError, OSError) as error:
            return None, f"cannot be reached: {error}"
        except ValueError:
            return None, "answered with something else than JSON"
        return (fields, None) if isinstance(fields, dict) else (None, "answered with something else")


def listed_processes(own_number: int, replies: Sequence[Reply]) -> list[ProcessAnswer]:
    """The processes that an answer is made of, and the processes that have not answered."""
    listed: list[ProcessAnswer] = [{"number": own_number, "url": None, "fault": None}]
    listed += [{"number": each.number, "url": each.url, "fault": each.fault} for each in replies]
    return sorted(listed, key=lambda entry: entry["number"])


def added(found: Sequence[Fields], kept: Collection[str] = ()) -> Fields:
    """The members of these answers: numbers added up; others, and those in `kept`, as the first has them."""

    def total(name: str) -> Any:
        values = [each[name] for each in found if name in each]
        if isinstance(values[0], dict) and name not in kept:
            return added(values, kept)
        return sum(values) if isinstance(values[0], int) and name not in kept else values[0]

    return {name: total(name) for name in dict.fromkeys(name for each in found for name in each)}


def newest_first(pages: Pages, name: str) -> list[Fields]:
    """The entries of this name in all pages, each with its process."""
    entries = [{**each, "process": number} for number, page in pages.items() for each in page[name]]
    return sorted(entries, key=lambda each: (each["at"], each["number"]), reverse=True)


# Pages of a list that several processes keep, each of which numbers its own entries; newest first.

_PAIRS = re.compile(r"[0-9]{1,15}:[0-9]{1,15}(?:,[0-9]{1,15}:[0-9]{1,15}){0,127}", re.ASCII)
_ENDED = 0  # in a cursor: every entry of the process was shown

Cursor: TypeAlias = Mapping[int, int]
"""By process, the number of its last entry that was shown. A process without one begins with the newest."""


def read_pairs(text: str) -> dict[int, int] | None:
    """The numbers of processes, each with another number, in a text such as `1:12,2:7`; None in any other."""
    if not _PAIRS.fullmatch(text):
        return None
    pairs = [part.split(":") for part in text.split(",")]
    return {int(process): int(number) for process, number in pairs}


def write_pairs(pairs: Mapping[int, int]) -> str:
    """The text that `read_pairs` reads; empty for none."""
    return ",".join(f"{process}:{number}" for process, number in sorted(pairs.items()))


def read_cursor(text: str) -> Cursor:
    """The parameter `after` of a page of all processes. Raises InvalidInputError."""
    shown = read_pairs(text) if text else {}
    if shown is None:
        raise InvalidInputError(f"{text[:40]!r} does not come from `next` of the page before.")
    return shown


def page_query(cursor: Cursor, query: Mapping[str, str], limit: int, number: int) -> Mapping[str, str] | None:
    """The query for the next page of the process of this number; None if it has no more."""
    after = cursor.get(number)
    if after == _ENDED:
        return None
    return {**query, "limit": str(limit), **({} if after is None else {"after": str(after)})}


def pages_of(own_number: int, own: Fields | None, replies: Sequence[Reply]) -> Pages:
    """The answers of all processes that have answered."""
    pages: dict[int, Fields] = {} if own is None else {own_number: own}
    return pages | {reply.number: reply.fields for reply in replies if reply.fields is not None}


def merged_page(
    name: str, cursor: Cursor, own_number: int, own: Fields | None, replies: Sequence[Reply], limit: int
) -> Fields:
    """The newest entries of these pages, which each has under the name, with their processes."""
    pages = pages_of(own_number, own, replies)
    found = []
    for process, page in pages.items():  # whose entries stay in the order of their numbers
        moment = ""
        for entry in reversed(page[name]):
            moment = max(moment, entry["at"])
            found.append((moment, entry["number"], {**entry, "process": process}))
    shown = [entry for _, _, entry in sorted(found, key=lambda each: each[:2], reverse=True)][:limit]
    return {
        name: shown,
        "next": _next(name, cursor, pages, shown),
        "processes": listed_processes(own_number, replies),
    }


def _next(name: str, cursor: Cursor, pages: Pages, shown: Sequence[Fields]) -> str | None:
    """The cursor of the page that follows; None if every process has shown all that it has."""
    places = dict(cursor)
    for process, page in pages.items():
        numbers = [each["number"] for each in shown if each["process"] == process]
        if len(numbers) == len(page[name]) and page["next"] is None:
            places[process] = _ENDED
        elif numbers:
            places[process] = min(numbers)
    if all(places.get(process) == _ENDED for process in pages):
        return None
    return write_pairs(places) or None


class PagesOfAll(NamedTuple, Generic[Answer]):
    """A list that each process keeps under a `name`; `members` are made of the pages of all processes."""

    name: str
    question: Question
    limit: int
    own: Callable[[int | None], Answer]
    members: Callable[[Pages], Fields]
    ended: int | None = None  # no entry has a lower number: asked of a process that has shown all
    read: Callable[[str], int | None] = read_after  # reads `after` of a page of one process


class Cluster:
    """This process, and its neighbours on the database, if it has any."""

    def __init__(self, neighbours: Neighbours | None) -> None:
        self.neighbours = neighbours

    def wanted(self, request: web.Request) -> WantedProcess:
        """The process that a request names. Raises InvalidInputError, NotFoundError if it came to another."""
        neighbours = self.neighbours
        process, addressee = request.query.get("process"), request.headers.get(_ADDRESSEE)
        if addressee is not None and neighbours is not None and addressee != str(neighbours.own_number):
            raise NotFoundError("The process that was asked has ended: another one answers at its URL.")
        if process is None or process == OWN:
            return process
        if not process.isascii() or not process.isdecimal() or len(process) > 15:
            raise InvalidInputError("The query parameter process takes the number of a process, or own.")
        return int(process)

    async def of_all(
        self,
        wanted: WantedProcess,
        question: Question,
        own: Callable[[], Awaitable[Answer]],
        merge: Callable[[Pages], Fields],
        shown_as: str | None = None,
    ) -> Answer:
        """The answer of all processes, or of the one that is `wanted`; `own` answers for this process. The
        list of processes has the answer of each under the name `shown_as`, if there is one.
        """
        neighbours = self.neighbours
        if neighbours is None or wanted is not None:
            return await self.of_one(wanted, question, own)
        path, query = question
        mine, replies = await asyncio.gather(own(), neighbours.ask_all(path, lambda _: query))
        pages = pages_of(neighbours.own_number, mine, replies)
        processes: list[Fields] = [*listed_processes(neighbours.own_number, replies)]
        if shown_as is not None:
            processes = [{**each, shown_as: pages.get(each["number"])} for each in processes]
        merged: Answer = merge(pages) | {"processes": processes}
        return merged

    async def of_one(
        self,
        wanted: WantedProcess,
        question: Question,
        own: Callable[[], Awaitable[Answer]],
        wait_seconds: float = 0.0,
    ) -> Answer:
        """The answer of this process, or of another one that is `wanted`."""
        neighbours = self.neighbours
        if neighbours is None or not isinstance(wanted, int) or wanted == neighbours.own_number:
            return await own()
        answer: Answer = await neighbours.ask_one(wanted, *question, wait_seconds)
        return answer

    async def page_of_all(self, wanted: WantedProcess, after: str, pages: PagesOfAll[Answer]) -> Answer:
        """A page of all processes together, or of the one that is `wanted`. Raises InvalidInputError."""
        (path, query), limit, ended = pages.question, pages.limit, pages.ended
        neighbours = self.neighbours

        async def own() -> Answer:
            return pages.own(pages.read(after))

        if neighbours is None or wanted is not None:
            question = (path, {**query, "after": after, "limit": str(limit)})
            return await self.of_one(wanted, question, own)
        cursor, own_number = read_cursor(after), neighbours.own_number

        def asked(process: int) -> Mapping[str, str] | None:
            nothing = None if ended is None else {"after": str(ended), "limit": "1"}
            return page_query(cursor, query, limit, process) or nothing

        has_ended = cursor.get(own_number) == _ENDED
        before = ended if has_ended else cursor.get(own_number)
        mine = None if before is None and has_ended else pages.own(before)
        replies = await neighbours.ask_all(path, asked)
        page = merged_page(pages.name, cursor, own_number, mine, replies, limit)
        whole: Answer = page | pages.members(pages_of(own_number, mine, replies))
        return whole


# The position of a reader in the changes of several processes, each of which counts its own.

_PLAIN = re.compile(r"[0-9]{1,15}", re.ASCII)


def read_positions(text: str, own_number: int) -> dict[int, int] | None:
    """The last known change of each process; None for nothing. A plain number is of the one that answers.
    Raises InvalidInputError.
    """
    if not text:
        return None
    if _PLAIN.fullmatch(text):
        return {own_number: int(text)} if int(text) else {}
    positions = read_pairs(text)
    if positions is None:
        raise InvalidInputError(
            f"{text[:40]!r} is no change: take it from `last`, or from the id of an event."
        )
    return positions


def read_position(text: str, number: int) -> int | None:
    """The last known change of one process; None for nothing. Raises InvalidInputError."""
    positions = read_positions(text, number)
    return None if positions is None else positions.get(number, 0)


def write_positions(positions: Mapping[int, int]) -> str:
    """The text that `read_positions` reads."""
    return write_pairs(positions) or "0"


def merged_news(
    positions: Mapping[int, int], own_number: int, own: Fields, replies: Sequence[Reply], limit: int
) -> Fields:
    """The first of the changes after these positions, each with its process, and the positions after them."""
    pages = pages_of(own_number, own, replies)
    shown = sorted(_in_order(pages), key=lambda pair: pair[0])[:limit]
    requests = [request for _, request in shown]
    after = {}
    for number, page in pages.items():
        changes = [each["change"] for each in requests if each["process"] == number]
        is_whole = len(changes) == len(page["requests"])
        after[number] = int(page["last"]) if is_whole else max([positions.get(number, 0), *changes])
    return {
        "requests": requests,
        "last": write_positions({**positions, **after}),
        "processes": listed_processes(own_number, replies),
    }


def changed_at_ms(request: Fields) -> int:
    """The moment of a request's last change: its answer, or its beginning while it waits."""
    return milliseconds_of(request["at"]) + round(request["milliseconds"] or 0)


def _in_order(pages: Pages) -> list[tuple[int, Fields]]:
    """The requests with the times that order them. A process's own stay in the order of their changes."""
    found = []
    for number, page in pages.items():
        moment_ms = 0
        for request in page["requests"]:
            moment_ms = max(moment_ms, changed_at_ms(request))
            found.append((moment_ms, {**request, "process": number}))
    return found
