"""A headless wallet in a process of its own: from its URIs to its exit code."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
import orjson

from bridge_server.cli.options import CommandError
from bridge_server.cli.parent import Parent
from bridge_server.cli.process import ready_file_at
from bridge_server.client import BadPairingError, BridgeClientError, BridgeUnreachableError, Generation
from bridge_server.headless.control.application import ControlFacts, ListeningError, control_api
from bridge_server.headless.control.wire import event_fields
from bridge_server.headless.feed import Happening, PairingFailed, SessionDecided, SessionEnded, Watch
from bridge_server.headless.terminal import TerminalLines
from bridge_server.headless.wallet import HeadlessWallet
from bridge_server.kernel.errors import BridgeError, InvalidInputError

ENDED, UNREACHABLE, USAGE, UNMET = range(4)
"""The exit codes."""

_READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the command."""

    make: Callable[[], HeadlessWallet]
    uris: tuple[str, ...]
    reads_input: bool
    generation: Generation | None
    listen: tuple[str, int] | None
    ready_file: Path | None
    parent: Parent | None
    is_once: bool
    expected: dict[str, int]
    output: Literal["lines", "json", "quiet"]


async def run_wallet(plan: Plan) -> int:
    """Run until the sessions are over, or a signal comes; returns the exit code. Raises CommandError."""
    try:
        async with plan.make() as wallet, _controlled(wallet, plan.listen) as facts:
            run = _Run(wallet, plan)
            run.stop_at_signals()  # before the ready file: a signal may follow it at once
            shown = _shown(plan.output)
            ready = {
                "url": facts and facts.url, "token": facts and facts.token,
                "pid": os.getpid(), "accounts": wallet.accounts,
            }  # fmt: skip
            with (
                wallet.feed.watched_by(shown) if shown else nullcontext(),
                ready_file_at(plan.ready_file, ready, is_secret=True),
            ):
                return await run.until_over()
    except InvalidInputError as error:
        raise CommandError(error.detail) from error
    except BridgeError as error:
        click.echo(f"bridge-server: {error.detail}", err=True)
        return UNREACHABLE
    except (ListeningError, ValueError) as error:
        raise CommandError(str(error)) from error


@asynccontextmanager
async def _controlled(
    wallet: HeadlessWallet, listen: tuple[str, int] | None
) -> AsyncIterator[ControlFacts | None]:
    if listen is None:
        yield None
        return
    async with control_api(wallet, *listen) as facts:
        yield facts


def _shown(output: Literal["lines", "json", "quiet"]) -> Watch | None:
    match output:
        case "lines":
            return TerminalLines(_print).watch
        case "json":
            return lambda happening: _print(orjson.dumps(event_fields(happening)))
        case "quiet":
            return None


def _print(line: str | bytes) -> None:
    with suppress(OSError):  # nobody reads any more, and the sessions go on
        click.echo(line)


class _Run:
    """The sessions of one run, and what ends it."""

    def __init__(self, wallet: HeadlessWallet, plan: Plan) -> None:
        self._wallet = wallet
        self._plan = plan
        self._code = ENDED
        self._stop = asyncio.Event()
        self._sessions: set[asyncio.Task[None]] = set()

    def stop_at_signals(self) -> None:
        """Have SIGTERM and SIGINT end the run."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)

    async def until_over(self) -> int:
        """Run the sessions to their end, or until a signal; returns the exit code."""
        with self._wallet.feed.watched_by(self._watch):
            work = asyncio.create_task(self._follow_all())
            stopping = asyncio.create_task(self._stop.wait())
            orphaned = asyncio.create_task(self._stop_with_parent())
            await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
            for task in (work, stopping, orphaned, *self._sessions):
                task.cancel()
            await asyncio.gather(work, stopping, orphaned, *self._sessions, return_exceptions=True)
        return self._code or self._expectations()

    async def _stop_with_parent(self) -> None:
        if self._plan.parent is not None:
            await self._plan.parent.ended()
            self._stop.set()

    def _watch(self, happening: Happening) -> None:
        match happening:
            case SessionEnded(session) | SessionDecided(session) if session.is_over:
                if session.ended_by == "bridge":
                    self._fail(UNREACHABLE, session.reason)
                if self._plan.is_once:
                    self._stop.set()

    async def _follow_all(self) -> None:
        for uri in self._plan.uris:
            self._follow(uri)
        if self._plan.reads_input:
            async for line in _lines_of_input():
                self._follow(line)
        if self._plan.listen is not None:
            await self._stop.wait()
        while self._sessions:
            await asyncio.wait(self._sessions)

    def _follow(self, uri: str) -> None:
        task = asyncio.create_task(self._pair(uri))
        self._sessions.add(task)
        task.add_done_callback(self._sessions.discard)

    async def _pair(self, uri: str) -> None:
        try:
            session = await self._wallet.pair(uri, generation=self._plan.generation)
        except BadPairingError as error:
            self._not_paired(USAGE, str(error))
        except BridgeUnreachableError as error:
            self._not_paired(UNREACHABLE, f"{error} Start the bridge, or correct the URL that the dapp uses.")
        except BridgeClientError as error:
            self._not_paired(UNREACHABLE, str(error))
        else:
            await session.wait_until_over()

    def _not_paired(self, code: int, reason: str) -> None:
        self._fail(code, reason)
        self._wallet.feed.tell(PairingFailed(reason))
        if self._plan.is_once:
            self._stop.set()

    def _fail(self, code: int, reason: str) -> None:
        self._code = self._code or code
        click.echo(f"bridge-server: {reason}", err=True)

    def _expectations(self) -> int:
        counts = self._wallet.call_log.counts
        for method, count in self._plan.expected.items():
            if counts[method] != count:
                click.echo(
                    f"bridge-server: --expect {method}={count} was not met: {counts[method]} came", err=True
                )
        is_met = all(counts[method] == count for method, count in self._plan.expected.items())
        return ENDED if is_met else UNMET


async def _lines_of_input() -> AsyncIterator[str]:
    """The lines of standard input, read in a thread that nobody has to wait for."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def hand_over(line: str | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=_read_input, args=(hand_over,), daemon=True).start()
    while (line := await lines.get()) is not None:
        if line.strip():
            yield line.strip()


def _read_input(hand_over: Callable[[str | None], None]) -> None:
    """Read without the lock of `sys.stdin`, on which the end of the program would wait."""
    rest = b""
    try:
        while content := os.read(sys.stdin.fileno(), _READ_BYTES):
            *lines, rest = (rest + content).split(b"\n")
            for line in lines:
                hand_over(line.decode(errors="replace"))
        hand_over(rest.decode(errors="replace"))
    except (OSError, ValueError, AttributeError):  # there is no standard input
        pass
    hand_over(None)
