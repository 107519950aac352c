"""The operations of a database, so that a driver is one file and the stores are written once; and the URL of
a PostgreSQL database.

A transaction is a generator: it yields statements and is sent the rows of each (a statement without rows, or
`ForEach`, is answered with one row: how many rows it changed), yields the events that are to be published
once it is committed, and returns its result. It runs wholly or not at all, possibly sharing a commit with
others, and may be run again from its start if the first attempt was rolled back: so it must not change
anything but the database.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, final, overload
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit
from zlib import crc32

import orjson

from bridge_server.kernel.events import DomainEvent
from bridge_server.kernel.values import dataclass

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

_STRIPES = 256
_URL_SCHEMES = ("postgresql", "postgres")
_URL_SECRETS = ("password", "sslpassword")
_URL_EXAMPLE = "postgresql://user:password@host:5432/name"
_NAMES_A_DATABASE = ("dbname", "database", "service")
_HIGHEST_PORT = 65_535

Value: TypeAlias = str | bytes | int | None
Row: TypeAlias = tuple[Any, ...]
"""The values of one row, each a `Value`; their types follow from the statement."""


@final
@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of portable SQL and its parameters. A named tuple would take twice as long to make."""

    sql: str
    parameters: Sequence[Value] = ()


@final
class ForEach(NamedTuple):
    """A statement that changes rows, to execute with each of these parameters in one exchange."""

    sql: str
    parameters: Sequence[Sequence[Value]]


Step: TypeAlias = Statement | ForEach | DomainEvent
"""A statement to execute, or an event to publish once the transaction is committed."""

Transaction: TypeAlias = Generator[Step, list[Row], Result]


class Turn(NamedTuple):
    """A thing that a transaction changes depending on what it reads of it, such as one session."""

    kind: str
    id: str = ""
    """The id of the thing; empty if its kind has only one."""


class Turns(NamedTuple):
    """The turns of one transaction. SQLite has one writer, whose turn it always is."""

    exclusive: Sequence[Turn] = ()
    shared: Sequence[Turn] = ()


NO_TURNS = Turns()
"""The turns of a transaction whose statements each decide for themselves."""


class Database(Protocol):
    """Committed reads and durable transactions. Both raise `UnavailableError` when it cannot serve now."""

    @property
    def takes_turns(self) -> bool:
        """Whether transactions have to name their turns: several write at once."""

    @property
    def is_busy(self) -> bool:
        """Whether a read or a transaction is under way."""

    @property
    def is_full(self) -> bool:
        """Whether it has reached its limit: transactions that add to it are refused."""

    def require_room(self) -> None:
        """Raise UnavailableError when it is full."""

    def read(self, sql: str, parameters: Sequence[Value] = ()) -> Awaitable[list[Row]]:
        """All rows of one statement that only reads; sees every commit that was answered before the call."""

    def look_up(self, sql: str, parameters: Sequence[Value]) -> list[Row] | None:
        """The few small rows that an index finds, without waiting; None if `read` must be awaited."""

    def transaction(
        self, begin: Callable[[], Transaction[Result]], *, adds: bool = False, turns: Turns = NO_TURNS
    ) -> Awaitable[Result]:
        """Run the transaction that `begin` makes; return its result once it is on disk. One that `adds` data
        on a client's demand is refused while the database is full.

        Two transactions that name one turn are never under way together, in any process; transactions that
        only share it may be. A turn is had before the first statement is run.

        Its events are published then, even when the caller no longer waits. Its exceptions are raised here,
        and such a transaction has changed nothing.
        """


class Store(Protocol):
    """An object that keeps its rows in a database."""

    @property
    def database(self) -> Database:
        """The database of the store's rows."""


AnyStore = TypeVar("AnyStore", bound=Store)

Work: TypeAlias = Callable[Concatenate[AnyStore, Parameters], Transaction[Result]]
"""A generator of a store, whose calls are transactions."""

Method: TypeAlias = Callable[Concatenate[AnyStore, Parameters], Awaitable[Result]]
"""A method of a store. A call runs one transaction, without a coroutine between the caller and the commit."""

TurnsOf: TypeAlias = Callable[..., Turns]
"""The turns of a transaction, by the arguments of the store's method."""


class _Decorator(Protocol):
    """Makes a store's method of a generator, with `turns` if its writes depend on its reads."""

    @overload
    def __call__(self, work: Work[AnyStore, Parameters, Result]) -> Method[AnyStore, Parameters, Result]: ...

    @overload
    def __call__(
        self, *, turns: TurnsOf
    ) -> Callable[[Work[AnyStore, Parameters, Result]], Method[AnyStore, Parameters, Result]]: ...


def _decorator(*, adds: bool) -> _Decorator:
    def decorated(work: Any = None, *, turns: TurnsOf | None = None) -> Any:
        return partial(_method, adds, turns) if work is None else _method(adds, turns, work)

    return decorated


def _method(
    adds: bool, turns_of: TurnsOf | None, work: Work[AnyStore, Parameters, Result]
) -> Method[AnyStore, Parameters, Result]:
    def run(store: AnyStore, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Awaitable[Result]:
        database, begin = store.database, partial(work, store, *args, **kwargs)
        if turns_of is None or not database.takes_turns:
            return database.transaction(begin, adds=adds)
        return database.transaction(begin, adds=adds, turns=turns_of(*args, **kwargs))

    return run


transaction = _decorator(adds=False)
"""Makes a store's method of a generator: calling it runs one transaction on the store's database."""
adding_transaction = _decorator(adds=True)
"""`transaction` for what stores more on a client's demand: refused while the database is full."""


def reading(work: Work[AnyStore, Parameters, Result]) -> Method[AnyStore, Parameters, Result]:
    """Make a store's method of a generator that reads, each statement at its moment, and yields no event."""

    async def run(store: AnyStore, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        steps = work(store, *args, **kwargs)
        try:
            step = next(steps)
            while True:
                assert isinstance(step, Statement)
                step = steps.send(await store.database.read(step.sql, step.parameters))
        except StopIteration as stop:
            result: Result = stop.value
            return result

    return run


def scalar(kind: type[Result], rows: Sequence[Row]) -> Result:
    """The one value of the one row that a statement gave, of this type."""
    ((value,),) = rows
    assert isinstance(value, kind)
    return value


def json_array(values: Iterable[Value]) -> str:
    """Many values as one parameter, which the statement takes apart."""
    return orjson.dumps(list(values)).decode()


class Engine(Database, Protocol):
    """A database as the server opens, closes and watches it, beyond what the stores need."""

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Hold it open; on leaving, commit queued transactions and close every connection."""

    @property
    def last_commit_failed(self) -> bool:
        """Whether the most recent attempt to commit was refused."""

    @property
    def missing(self) -> Sequence[str]:
        """The reasons why it cannot serve at this moment, for people to read."""

    @property
    def troubles(self) -> Sequence[str]:
        """Faults that last until an operator mends them, for people to read."""

    def figures(self) -> Mapping[str, int]:
        """Gauges for the operator: at least its bytes, its commits, and the transactions in them."""


class DatabaseRefusedError(Exception):
    """The database cannot be used; the text names the reason and the remedy, in one line."""


class DatabaseAwayError(DatabaseRefusedError):
    """The database cannot be used at the moment, and no setting is at fault: a later attempt may succeed."""


def alone(kind: str, name: str = "") -> Turns:
    """The turns of a transaction that decides about one thing."""
    return Turns((Turn(kind, name),))


def always(turns: Turns) -> TurnsOf:
    """A function that gives these turns for any arguments of the transaction."""
    return lambda *_, **__: turns


def sweeping(name: str, *others: Turn) -> TurnsOf:
    """The turns of a sweep: two processes do not delete one slice, and count its rows, at once."""
    return always(Turns((Turn("sweep", name), *others)))


def striped(kind: str, name: str) -> Turn:
    """The turn of one of 256 groups of things, for transactions that decide about thousands of them. A turn
    is a lock in memory, of which a database has some thousands for all processes.
    """
    return Turn(kind, str(crc32(name.encode("utf-8", "replace")) % _STRIPES))


def each_once(turns: Iterable[Turn]) -> Turns:
    """Exclusive turns, without repetitions."""
    return Turns(tuple(dict.fromkeys(turns)))


@dataclass(frozen=True, slots=True)
class ChangedOutside(DomainEvent):
    """Another process, such as an operator's command, has changed the database: any row may be different."""


class Process(NamedTuple):
    """A process of the server that uses a shared database, or has used it a few minutes ago."""

    number: int
    url: str
    """The URL at which other processes reach it."""
    version: str
    state: str
    """`running`; `silent` if it has not been seen for half a minute; `stopped`."""
    started_at_ms: int | None
    """None if its program is of a version that did not say so."""
    seen_seconds_ago: float
    holds_wallet: bool

    @property
    def is_running(self) -> bool:
        """Whether it answers requests."""
        return self.state == "running"


def checked_url(url: str) -> str:
    """The URL of a PostgreSQL database. Raises ValueError, whose text repeats no part of the URL."""
    parts = _split_url(url)
    if parts.scheme.lower() not in _URL_SCHEMES:
        raise ValueError(f"must be the URL of a PostgreSQL database, such as {_URL_EXAMPLE}")
    if parts.netloc.count("@") > 1 or parts.fragment:
        raise ValueError("a character of the password must be encoded: write @ as %40, / as %2F, # as %23")
    _check_ports(parts)
    try:
        query = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError:
        raise ValueError("what follows the ? must be name=value, joined by &") from None
    if not parts.path.strip("/") and not query.keys() & set(_NAMES_A_DATABASE):
        raise ValueError(f"must name the database after the host: {_URL_EXAMPLE}")
    return url


def url_without_password(url: str) -> str:
    """The URL of a database as it may be shown: a password in it is `***`."""
    try:
        parts = _split_url(url)
    except ValueError:
        return "***"
    login, at, hosts = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    netloc = f"{user}:***@{hosts}" if colon else f"{login}{at}{hosts}"
    pairs = [(name, "***" if name in _URL_SECRETS else value) for name, value in parse_qsl(parts.query)]
    return urlunsplit((parts.scheme, netloc, parts.path, urlencode(pairs, safe="*/:,"), ""))


def _split_url(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise ValueError(f"cannot be read: write it as {_URL_EXAMPLE}") from None


def _check_ports(parts: SplitResult) -> None:
    """The ports of its hosts, of which there may be several, with commas between them."""
    for host in parts.netloc.rpartition("@")[2].split(","):
        _, colon, port = host.rpartition("]")[2].rpartition(":")
        if colon and not (port.isascii() and port.isdecimal() and 0 < int(port) <= _HIGHEST_PORT):
            raise ValueError(
                f"the port after the host must be a number from 1 to {_HIGHEST_PORT}; in a password, "
                "write / as %2F, ? as %3F, # as %23"
            )
