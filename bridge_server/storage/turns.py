"""The turns of transactions whose writes depend on their reads."""

from collections.abc import Iterable
from zlib import crc32

from bridge_server.storage.database import Turn, Turns, TurnsOf

_STRIPES = 256


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
    """The turn of one of 256 groups of things, for transactions that decide about thousands of them.

    A turn is a lock in memory, of which a database has some thousands for all processes.
    """
    return Turn(kind, str(crc32(name.encode("utf-8", "replace")) % _STRIPES))


def each_once(turns: Iterable[Turn]) -> Turns:
    """Exclusive turns, without repetitions."""
    return Turns(tuple(dict.fromkeys(turns)))
