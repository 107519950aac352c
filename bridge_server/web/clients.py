"""Clients by address: the requests of each, in bounded memory. The heaviest stay, whatever is sent.

The figures of the last hour are twelve periods of five minutes, and totals since the start are the sum of all
periods. Each table has at most a thousand addresses: when it is full, only the heaviest of each kind stay.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from typing import Literal, TypeAlias, get_args

from bridge_server.kernel.clock import Clock

By: TypeAlias = Literal["requests", "refused", "sessions", "sockets", "waits", "bytes"]
ORDERS: tuple[By, ...] = get_args(By)

MOST_ADDRESSES = 1_000
PERIOD_SECONDS = 300
PERIODS = 12
_KEPT_OF_EACH_ORDER = 120
_MOST_LIMITS = 16
_OTHER_LIMITS = "other"
_MICROSECONDS = 1_000_000


@dataclass(slots=True)
class ClientFigures:
    """The requests of one address: `bytes` are the bytes of bodies, received and answered."""

    requests: int = 0
    refused: int = 0
    sessions: int = 0
    sockets: int = 0
    waits: int = 0
    bytes: int = 0
    refused_by: dict[str, int] = field(default_factory=dict)

    def refuse(self, limit: str) -> None:
        """Count a refusal by this limit."""
        self.refused += 1
        name = limit if limit in self.refused_by or len(self.refused_by) < _MOST_LIMITS else _OTHER_LIMITS
        self.refused_by[name] = self.refused_by.get(name, 0) + 1

    def add(self, other: "ClientFigures") -> None:
        """Add the other's figures."""
        for name in ORDERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for limit, count in other.refused_by.items():
            self.refused_by[limit] = self.refused_by.get(limit, 0) + count


@dataclass(frozen=True, slots=True)
class Client:
    """An address and its figures; `waiting` requests of it are held at this moment."""

    address: str
    figures: ClientFigures
    waiting: int = 0


class Clients:
    """The figures of every address that is heavy enough. `turn` is to be called now and then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.now: dict[str, ClientFigures] = {}
        """The table of the current period."""
        self._periods: deque[dict[str, ClientFigures]] = deque(maxlen=PERIODS - 1)
        self._before: dict[str, ClientFigures] = {}
        self._period = self._number_of_period()
        self.waiting: Counter[str] = Counter()
        self.before_reading: Callable[[], None] = _nothing
        """Counts the requests that were put off."""

    def figures(self, address: str) -> ClientFigures:
        """The figures of this address in the current period."""
        found = self.now.get(address)
        if found is None:
            if len(self.now) >= MOST_ADDRESSES:
                _keep_the_heaviest(self.now)
            found = self.now[address] = ClientFigures()
        return found

    def begin_waiting(self, address: str) -> None:
        """A request of this address is held from now on."""
        self.figures(address).waits += 1
        self.waiting[address] += 1

    def end_waiting(self, address: str) -> None:
        """A held request of this address is answered, or its client has left."""
        self.waiting[address] -= 1
        if not self.waiting[address]:
            del self.waiting[address]

    def turn(self) -> None:
        """Begin a new period if it is time."""
        self.before_reading()
        period = self._number_of_period()
        if period == self._period:
            return
        _add_to(self._before, self.now)
        self._periods.append(self.now)
        for _ in range(min(PERIODS, period - self._period - 1)):
            self._periods.append({})
        self.now = {}
        self._period = period

    def heaviest(self, by: By, limit: int, *, last_seconds: int | None) -> Sequence[Client]:
        """The addresses with the most, but none with nothing; of the last seconds, or since the start."""
        table = self._table(last_seconds)
        found = nlargest(limit, table.items(), key=lambda item: getattr(item[1], by))
        return [self._client(address, each) for address, each in found if getattr(each, by)]

    def find(self, address: str, *, last_seconds: int | None) -> Client | None:
        """This address, if it is kept."""
        found = self._table(last_seconds).get(address)
        return None if found is None else self._client(address, found)

    def clear(self) -> None:
        """Forget everything but the requests that wait."""
        self.before_reading()
        self.now.clear()
        self._periods.clear()
        self._before.clear()

    def _client(self, address: str, figures: ClientFigures) -> Client:
        return Client(address, figures, self.waiting.get(address, 0))

    def _table(self, last_seconds: int | None) -> Mapping[str, ClientFigures]:
        self.turn()
        if last_seconds is None:
            return _sum((self._before, self.now))
        earlier = -(-last_seconds // PERIOD_SECONDS) - 1
        begun_before = islice(reversed(self._periods), earlier)
        return _sum((*begun_before, self.now))

    def _number_of_period(self) -> int:
        return self._clock.elapsed_us() // (PERIOD_SECONDS * _MICROSECONDS)


def _nothing() -> None:
    """Do nothing: no request is put off."""


def _sum(tables: Iterable[Mapping[str, ClientFigures]]) -> dict[str, ClientFigures]:
    total: dict[str, ClientFigures] = {}
    for table in tables:
        for address, figures in table.items():
            total.setdefault(address, ClientFigures()).add(figures)
    return total


def _add_to(total: dict[str, ClientFigures], more: Mapping[str, ClientFigures]) -> None:
    for address, figures in more.items():
        total.setdefault(address, ClientFigures()).add(figures)
    if len(total) > MOST_ADDRESSES:
        _keep_the_heaviest(total)


def _keep_the_heaviest(table: dict[str, ClientFigures]) -> None:
    """Keep some hundred addresses: the heaviest by requests, and by each other figure."""
    kept: set[str] = set()
    for by in ORDERS:
        kept.update(nlargest(_KEPT_OF_EACH_ORDER, table, key=lambda address: getattr(table[address], by)))
    for address in table.keys() - kept:
        del table[address]
