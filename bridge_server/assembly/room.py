"""A room as a value: everything that the server has to know of one of its subjects."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field
from functools import partial
from typing import TypeAlias

from bridge_server.kernel.sweeper import Sweep
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.models import GoneHandlers
from bridge_server.projects.service import Projects
from bridge_server.web.metrics import Families, Gauges
from bridge_server.web.routes import Route

Running: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]
"""Opens a resource or starts background work; leaving the context closes it."""


@asynccontextmanager
async def afterwards(work: Callable[[], None]) -> AsyncIterator[None]:
    """A context that does the work when it is left."""
    yield
    work()


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A part of the server with one subject. It leaves empty whatever it does not need."""

    name: str
    routes: tuple[Route, ...] = ()
    """The endpoints."""
    has_own_port: bool = False
    """Whether its endpoints are on a port of their own, and not on the server's."""
    running: tuple[Running, ...] = ()
    """Opened in this order when the server starts, and closed in reverse when it has stopped."""
    stop: Callable[[], None] | None = None
    """Called when the server begins to stop, while requests are still being answered."""
    emptied: tuple[Running, ...] = ()
    """Entered before test mode empties the database, and left afterwards: the room forgets what it keeps in
    memory of the rows, and its sockets and streams end. Called again at each reset.
    """
    catch_up: Callable[[], Awaitable[None]] | None = None
    """Does at once what has become due by the clock, when test mode has moved it."""
    sweeps: tuple[Sweep, ...] = ()
    """Delete what has expired, once every `sweep_interval`."""
    gauges: Gauges = dict
    """The room's figures for `/metrics`."""
    families: Families | None = None
    """Further figures for `/metrics`: figures with labels, and figures that are read from the database."""
    totals: frozenset[str] = frozenset()
    """Names of the figures that begin at zero and only grow."""
    troubles: Callable[[], Sequence[str]] = tuple
    """Faults that last until an operator mends them; `/readyz` prints them."""
    senders: Mapping[str, Sender] = field(default_factory=dict)
    """Deliver messages of the outbox, by the schemes of their URLs."""
    clients: tuple[Running, ...] = ()
    """HTTP clients of the senders: open before the outbox delivers, closed after its last delivery."""
    gone_handlers: GoneHandlers = field(default_factory=dict)
    """Called with messages whose receiver answered that it is gone (410), by the purpose of the message."""


# The project that `bridge-server dev` has from the start, with a secret that the command prints.


@dataclass(frozen=True, slots=True)
class DemoProject:
    """A project that is there whenever the server answers. `types` are names by their ids."""

    project_id: str
    name: str
    secret: str
    types: Mapping[str, str]


def demo_room(projects: Projects, demo: DemoProject | None) -> Room:
    """The project is made before the server answers, and again when test mode has emptied the database."""
    if demo is None:
        return Room(name="demo")
    ensure = partial(projects.ensure, demo.project_id, demo.name, demo.secret, demo.types)

    @asynccontextmanager
    async def before() -> AsyncIterator[None]:
        await ensure()
        yield

    @asynccontextmanager
    async def after_reset() -> AsyncIterator[None]:
        yield
        await ensure()

    return Room(name="demo", running=(before,), emptied=(after_reset,))
