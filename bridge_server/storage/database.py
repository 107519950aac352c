"""The operations of a database, so that a driver is one file and the stores are written once.

A transaction is a generator: it yields statements and is sent the rows of each (a statement without rows is
answered with one row: how many rows it changed), yields the events that are to be published once it is
committed, and returns its result. It runs wholly or not at all, possibly sharing a commit with others, and
may be run again from its start if the first attempt was rolled back: so it must not change anything but the
database.
"""

from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from functools import partial
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import orjson

from bridge_server.kernel.events import DomainEvent

Value: TypeAlias = str | bytes | int | None
Row: TypeAlias = tuple[Any, ...]
"""The values of one row, each a `Value`; their types follow from the statement."""

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


class Statement(NamedTuple):
    """One statement of portable SQL and its parameters."""

    sql: str
    parameters: Sequence[Value] = ()


Step: TypeAlias = Statement | DomainEvent
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
    """Committed reads and durable transactions.

    Both raise `UnavailableError` when the database cannot serve now: a full disk, a lock held elsewhere,
    too much waiting.
    """

    @property
    def takes_turns(self) -> bool:
        """Whether transactions have to name their turns: several write at once."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether a read or a transaction is under way."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether it has reached its limit: transactions that add to it are refused."""
        ...

    def require_room(self) -> None:
        """Raise UnavailableError when it is full."""
        ...

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """All rows of one statement that only reads; sees every commit that was answered before the call."""
        ...

    async def transaction(
        self, begin: Callable[[], Transaction[Result]], *, adds: bool = False, turns: Turns = NO_TURNS
    ) -> Result:
        """Run the transaction that `begin` makes; return its result once it is on disk.

        A transaction that `adds` data on a client's demand is refused while the database is full.

        Two transactions that name one turn are never under way together, in any process; transactions that
        only share it may be. A turn is had before the first statement is run.

        Its events are published then, even when the caller no longer waits. Its exceptions are raised here,
        and such a transaction has changed nothing.
        """
        ...


class Store(Protocol):
    """An object that keeps its rows in a database."""

    @property
    def database(self) -> Database:
        """The database of the store's rows."""
        ...


AnyStore = TypeVar("AnyStore", bound=Store)


Work: TypeAlias = Callable[Concatenate[AnyStore, Parameters], Transaction[Result]]
"""A generator of a store, whose calls are transactions."""

Method: TypeAlias = Callable[Concatenate[AnyStore, Parameters], Coroutine[Any, Any, Result]]
"""A method of a store. A call runs one transaction."""

TurnsOf: TypeAlias = Callable[..., Turns]
"""The turns of a transaction, by the arguments of the store's method."""


@overload
def transaction(
    work: Work[AnyStore, Parameters, Result],
) -> Method[AnyStore, Parameters, Result]: ...


@overload
def transaction(
    *, turns: TurnsOf
) -> Callable[[Work[AnyStore, Parameters, Result]], Method[AnyStore, Parameters, Result]]: ...


def transaction(work: Any = None, *, turns: TurnsOf | None = None) -> Any:
    """Make a store's method of a generator: calling it runs one transaction on the store's database.

    `turns` gives the turns of a transaction whose writes depend on its reads.
    """
    return _decorated(work, adds=False, turns_of=turns)


@overload
def adding_transaction(
    work: Work[AnyStore, Parameters, Result],
) -> Method[AnyStore, Parameters, Result]: ...


@overload
def adding_transaction(
    *, turns: TurnsOf
) -> Callable[[Work[AnyStore, Parameters, Result]], Method[AnyStore, Parameters, Result]]: ...


def adding_transaction(work: Any = None, *, turns: TurnsOf | None = None) -> Any:
    """Make a store's method that stores more on a client's demand: refused while the database is full.

    `turns` names the turns, as for `transaction`.
    """
    return _decorated(work, adds=True, turns_of=turns)


def _decorated(work: Any, *, adds: bool, turns_of: TurnsOf | None) -> Any:
    def decorate(work: Work[AnyStore, Parameters, Result]) -> Method[AnyStore, Parameters, Result]:
        return _method(work, adds) if turns_of is None else _method_with_turns(work, adds, turns_of)

    return decorate if work is None else decorate(work)


def _method(work: Work[AnyStore, Parameters, Result], adds: bool) -> Method[AnyStore, Parameters, Result]:
    async def run(store: AnyStore, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return await store.database.transaction(partial(work, store, *args, **kwargs), adds=adds)

    return run


def _method_with_turns(
    work: Work[AnyStore, Parameters, Result], adds: bool, turns_of: TurnsOf
) -> Method[AnyStore, Parameters, Result]:
    async def run(store: AnyStore, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        database, begin = store.database, partial(work, store, *args, **kwargs)
        if not database.takes_turns:
            return await database.transaction(begin, adds=adds)
        return await database.transaction(begin, adds=adds, turns=turns_of(*args, **kwargs))

    return run


def reading(
    work: Callable[Concatenate[AnyStore, Parameters], Transaction[Result]],
) -> Callable[Concatenate[AnyStore, Parameters], Coroutine[Any, Any, Result]]:
    """Make a store's method of a generator whose statements only read.

    Each statement sees the state of its own moment, on the connections that only read. The generator must
    yield no event.
    """

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
