"""Name resolution in separate threads, so that a slow name server delays only the names that it serves."""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

from bridge_server.outgoing.guard import AddressRefusedError, Rule
from bridge_server.outgoing.reserved_semaphore import ReservedSemaphore

LookUp: TypeAlias = Callable[[str], list[str]]
"""Returns the numeric addresses of a name. Blocks. Raises OSError."""

_THREADS = 64
_THREADS_KEPT_FOR_QUICK_NAMES = 16
_QUICK_SECONDS = 1.0


def look_up(host: str) -> list[str]:
    """The numeric addresses of a name, from the operating system. Blocks. Raises OSError."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except UnicodeError as error:
        raise OSError(f"not a host name: {error}") from error
    return [str(address[0]) for *_, address in found]


class GuardedResolver(AbstractResolver):
    """Resolves names for aiohttp's connector, without the addresses that the rule refuses.

    Sockets are guarded as well. The resolver applies the rule so that a name with allowed and refused
    addresses connects to an allowed one, in any order of attempts.
    """

    def __init__(self, rule: Rule, look_up: LookUp = look_up) -> None:
        self._rule = rule
        self._look_up = look_up
        self._places = ReservedSemaphore(_THREADS, _THREADS_KEPT_FOR_QUICK_NAMES)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The allowed addresses, of IPv4 and IPv6.

        Raises AddressRefusedError if all addresses are refused, and OSError if there are none.
        """
        addresses = await self._addresses(host)
        refusals = {address: self._rule(address, port) for address in addresses}
        allowed = [address for address, reason in refusals.items() if reason is None]
        if allowed:
            return [_result(host, address, port) for address in allowed]
        reason = next(iter(refusals.values()), None)
        raise OSError("the name has no address") if reason is None else AddressRefusedError(reason)

    async def close(self) -> None:
        """Do nothing: a waiting thread ends with its answer, or with the process."""

    async def _addresses(self, host: str) -> list[str]:
        leave = await self._places.take(host)
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            return await _in_thread(partial(self._look_up, host))
        finally:
            self._places.note(host, loop.time() - started < _QUICK_SECONDS)
            leave()


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)


async def _in_thread(work: Callable[[], list[str]]) -> list[str]:
    """Run `work` in a daemon thread; a thread of an executor would delay the exit of the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[list[str]] = loop.create_future()

    def run() -> None:
        try:
            finish = partial(_settle, done, work())
        except Exception as error:  # raised again in _in_thread
            finish = partial(_fail, done, error)
        with suppress(RuntimeError):  # the event loop is closed: nothing waits for the answer
            loop.call_soon_threadsafe(finish)

    threading.Thread(target=run, daemon=True, name="webhook-name-lookup").start()
    return await done


def _settle(done: asyncio.Future[list[str]], addresses: list[str]) -> None:
    if not done.done():
        done.set_result(addresses)


def _fail(done: asyncio.Future[list[str]], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
