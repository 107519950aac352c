"""Connections to the node that ask for its chain.

Calls that sign or send use a checked connection: a single one at a time, and the first call on it asks for
the chain. Calls that only read use a pool; before it opens a connection, a checked one asks for the chain.

Where every connection is closed after one answer, as by a proxy that speaks HTTP/1.0, the chain is asked for
on one connection, and again on the next in the same batch as the calls.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus

import aiohttp

from bridge_server.wallet.errors import NodeError, NoNodeError, WrongChainError
from bridge_server.wallet.models import RpcCall
from bridge_server.wallet.node.answers import Answer, read_answers, write_calls
from bridge_server.wallet.node.endpoint import BrokenOffError, Endpoint, NotOpenError

_ATTEMPTS = 3
CHAIN_ID = RpcCall("eth_chainId", [])


class _ClosedAtOnceError(BrokenOffError):
    """The connection was closed after its first answer."""


class CheckedConnection:
    """One connection at a time, for one user at a time.

    `check_chain` is given the node's answer to eth_chainId before anything else is asked on a new connection;
    what it raises is raised, and nothing else is asked. Then `on_opened` is called, but not for each of the
    connections to a node that closes every one. `require_wallet` is called before each question, which it
    prevents by raising.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        check_chain: Callable[[Answer], None],
        on_opened: Callable[[], None],
        require_wallet: Callable[[], None] | None,
    ) -> None:
        self._require_wallet = require_wallet
        self._endpoint = endpoint
        self._check_chain = check_chain
        self._on_opened = on_opened
        self._session = endpoint.session(1, self._on_opening)
        self._may_open = False
        self._closes_all = False  # the node, each connection after one answer

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def ask(self, calls: Sequence[RpcCall]) -> list[Answer]:
        """The answers, in order. Asks again when a connection breaks: the calls must allow it.

        Raises NoNodeError; what `check_chain` raises, and no node has seen the calls.
        """
        broken_off: BrokenOffError | None = None
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                if isinstance(broken_off, _ClosedAtOnceError):
                    await self._open()
                    await self._leave_connection()  # it may be closed already, and that not seen yet
                    return await self._ask_anew(calls)
                return await self._ask_once(calls)
            except WrongChainError:
                if broken_off is None:
                    raise
                raise broken_off from None  # the node that was asked then may have taken the calls
            except BrokenOffError as error:  # as a rule by a node that took the connection for idle
                if attempt == _ATTEMPTS:
                    raise
                broken_off = error
        raise AssertionError("unreachable")

    async def check_again(self) -> None:
        """Ask for the chain, on the connection that is open if there is one."""
        try:
            await self._check()
        except (NotOpenError, BrokenOffError):
            await self._open()
        else:
            self._closes_all = False

    async def _on_opening(self) -> None:
        if not self._may_open:
            raise NotOpenError

    async def _open(self) -> None:
        closes_all, self._closes_all = self._closes_all, False
        self._may_open = True
        try:
            await self._check()
        finally:
            self._may_open = False
        self._closes_all = closes_all
        if not closes_all:
            self._on_opened()

    async def _ask_once(self, calls: Sequence[RpcCall]) -> list[Answer]:
        body = write_calls(calls)
        with suppress(NotOpenError):
            answers = await self._ask(body, len(calls))
            self._closes_all = False
            return answers
        await self._open()
        try:
            return await self._ask(body, len(calls))
        except NotOpenError:
            return await self._ask_anew(calls)
        except BrokenOffError as error:
            raise _ClosedAtOnceError(error.detail) from error

    async def _ask_anew(self, calls: Sequence[RpcCall]) -> list[Answer]:
        """Ask on a new connection, after a former one, which is closed now, has named the chain.

        The batch asks for the chain again, because another node may answer. Where batches are refused, the
        calls go without that.
        """
        self._closes_all, self._may_open = False, True
        try:
            answers = await self._ask_with_chain(calls)
            if answers is None:
                answers = await self._ask(write_calls(calls), len(calls))
        finally:
            self._may_open = False
        self._closes_all = True
        return answers

    async def _ask_with_chain(self, calls: Sequence[RpcCall]) -> list[Answer] | None:
        """None when no batch is answered."""
        try:
            chain, *answers = await self._ask(write_calls([CHAIN_ID, *calls]), 1 + len(calls))
        except NoNodeError as error:
            if isinstance(error.__cause__, aiohttp.ClientError | OSError):
                raise
            return None
        if isinstance(chain, NodeError):
            return None
        try:
            self._check_chain(chain)
        except WrongChainError as error:
            raise BrokenOffError(f"It may have been taken on another chain: {error.detail}") from error
        return answers

    async def _check(self) -> None:
        """Ask for the chain. A connection with another chain, or without an answer, is not used again."""
        try:
            (answer,) = await self._ask(write_calls([CHAIN_ID]), 1)
            self._check_chain(answer)
        except (NotOpenError, BrokenOffError):
            raise  # there is no connection
        except BaseException:
            await self._leave_connection()
            raise

    async def _leave_connection(self) -> None:
        before, self._session = self._session, self._endpoint.session(1, self._on_opening)
        await before.close()

    async def _ask(self, body: bytes, count: int) -> list[Answer]:
        if self._require_wallet is not None:
            self._require_wallet()
        try:
            status, answer = await self._endpoint.exchange(self._session, body)
        except NodeError as error:
            raise NoNodeError(error.detail) from error
        if status != HTTPStatus.OK:
            raise NoNodeError(f"The node answers with HTTP status {status}.")
        return read_answers(answer, count)
