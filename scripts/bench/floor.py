"""The floor: the smallest durable program that answers the bridge's requests, and the smallest that signs.

aiohttp and sqlite3, one table of each kind, commits shared by all writes that wait, on disk before the
answer. It checks nothing but that a body is JSON, and knows no limits, lifetimes, errors or waiting. What it
costs beyond a bare handler is the price of durability, or of a signature and its line of the audit log; what
the server costs beyond it is the price of its rules.

`floor.py DATABASE --ready-file FILE` runs it with the rows of a database that was filled for the server.
"""

import asyncio
import json
import os
import queue
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import coincurve
import orjson
from aiohttp import web
from Crypto.Hash import keccak
from machine import new_event_loop
from signing_tasks import KEY

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 0;
CREATE TABLE floor_sessions (id INTEGER PRIMARY KEY, name TEXT UNIQUE, payload BLOB, expires INTEGER);
CREATE TABLE floor_calls (id INTEGER PRIMARY KEY, name TEXT UNIQUE, session INTEGER, payload BLOB);
CREATE TABLE floor_statuses (call INTEGER PRIMARY KEY, payload BLOB);
"""
_TAKEN_OVER = """
INSERT INTO floor_sessions SELECT id, session_id, payload, expires_at_ms FROM sessions;
INSERT INTO floor_calls SELECT id, call_id, session, payload FROM calls;
"""
_STATUS = """
INSERT INTO floor_statuses VALUES (?, ?) ON CONFLICT (call) DO UPDATE SET payload = excluded.payload
"""

_CHECKPOINT_ABOVE_BYTES = 2**20
_CHECKPOINT_EVERY_SECONDS = 0.25
# As the server does: those just answered have this long to come back before the next commit.
_SIBLINGS = 8
_LINGER_SECONDS = 0.003
_EXPIRES = b"1795543200000"


class _Write(NamedTuple):
    work: Callable[..., int]
    parameters: tuple[Any, ...]
    done: "asyncio.Future[int]"


class Floor:
    """The program: its one connection, and the writes that wait for the next commit."""

    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self._database.executescript(_SCHEMA)
        self._database.executescript(_TAKEN_OVER)
        self._log = file.with_name(f"{file.name}-wal")
        self._file = file
        self._jobs: queue.SimpleQueue[tuple[list[_Write], asyncio.Future[list[int]]]] = queue.SimpleQueue()
        self._waiting: list[_Write] = []
        self._drain: asyncio.Task[None] | None = None
        self._siblings = 0
        self._gathered = asyncio.Event()
        self._key = coincurve.PrivateKey(KEY)
        self._audit = os.open(
            file.with_name("floor-audit.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )
        self._numbers = count(1)
        self._random = os.urandom(4).hex()
        for work in (self._commit_forever, self._checkpoint_forever):
            threading.Thread(target=work, daemon=True).start()

    def _checkpoint_forever(self) -> None:
        connection = sqlite3.connect(self._file, isolation_level=None)
        while True:
            time.sleep(_CHECKPOINT_EVERY_SECONDS)
            with suppress(OSError, sqlite3.Error):
                if self._log.stat().st_size > _CHECKPOINT_ABOVE_BYTES:
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _commit_forever(self) -> None:
        while True:
            batch, done = self._jobs.get()
            self._database.execute("BEGIN IMMEDIATE")
            changed = [work(*parameters) for work, parameters, _ in batch]
            self._database.execute("COMMIT")
            done.get_loop().call_soon_threadsafe(done.set_result, changed)

    def _write(self, work: Callable[..., int], *parameters: Any) -> "asyncio.Future[int]":
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Write(work, parameters, done))
        if len(self._waiting) == self._siblings:
            self._gathered.set()
        if self._drain is None:
            self._drain = asyncio.create_task(self._commit_until_idle())
        return done

    async def _commit_until_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            committed: asyncio.Future[list[int]] = loop.create_future()
            self._jobs.put((batch, committed))
            for write, changed in zip(batch, await committed, strict=True):
                if not write.done.done():
                    write.done.set_result(changed)
            if len(batch) < _SIBLINGS:
                continue
            self._siblings = len(batch) + len(self._waiting)
            if len(self._waiting) < self._siblings:
                self._gathered.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LINGER_SECONDS):
                        await self._gathered.wait()
        self._drain = None

    def _new_id(self) -> str:
        number = next(self._numbers)
        digits = f"{time.time_ns() // 1_000_000:012x}7{number & 0xFFF:03x}8{number:07x}{self._random}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def _insert_session(self, name: str) -> int:
        statement = "INSERT INTO floor_sessions (name, expires) VALUES (?, 0)"
        return self._database.execute(statement, (name,)).rowcount

    def _update_session(self, name: str, payload: bytes) -> int:
        statement = "UPDATE floor_sessions SET payload = ?, expires = 1 WHERE name = ?"
        return self._database.execute(statement, (payload, name)).rowcount

    def _insert_call(self, session: str, name: str, payload: bytes) -> int:
        found = self._database.execute("SELECT id FROM floor_sessions WHERE name = ?", (session,)).fetchone()
        if found is None:
            return 0
        statement = "INSERT INTO floor_calls (name, session, payload) VALUES (?, ?, ?)"
        return self._database.execute(statement, (name, found[0], payload)).rowcount

    def _upsert_status(self, call: str, payload: bytes) -> int:
        found = self._database.execute("SELECT id FROM floor_calls WHERE name = ?", (call,)).fetchone()
        if found is None:
            return 0
        return self._database.execute(_STATUS, (found[0], payload)).rowcount

    async def new_session(self, _: web.Request) -> web.Response:
        name = self._new_id()
        await self._write(self._insert_session, name)
        return _json(b'{"sessionId":"%b"}' % name.encode())

    async def put_session(self, request: web.Request) -> web.Response:
        payload = await _payload(request)
        if not await self._write(self._update_session, request.match_info["id"], payload):
            raise web.HTTPNotFound
        return _json(b'{"expires":%b}' % _EXPIRES)

    async def new_call(self, request: web.Request) -> web.Response:
        payload, name = await _payload(request), self._new_id()
        if not await self._write(self._insert_call, request.match_info["id"], name, payload):
            raise web.HTTPNotFound
        return _json(b'{"callId":"%b"}' % name.encode())

    async def new_status(self, request: web.Request) -> web.Response:
        payload = await _payload(request)
        if not await self._write(self._upsert_status, request.match_info["id"], payload):
            raise web.HTTPNotFound
        return _json(b'{"success":true}')

    async def session(self, request: web.Request) -> web.Response:
        statement = "SELECT payload FROM floor_sessions WHERE name = ?"
        found = self._database.execute(statement, (request.match_info["id"],)).fetchone()
        if found is None:
            raise web.HTTPNotFound
        return web.Response(status=204) if found[0] is None else _json(b'{"encryptionPayload":%b}' % found[0])

    async def sign(self, request: web.Request) -> web.Response:
        """`personal_sign`, with the one account there is."""
        call = orjson.loads(await request.read())
        message = bytes.fromhex(call["params"][0][2:])
        digest = keccak.new(
            data=b"\x19Ethereum Signed Message:\n%d%b" % (len(message), message), digest_bits=256
        )
        made = self._key.sign_recoverable(digest.digest(), hasher=None)
        os.write(self._audit, orjson.dumps({"method": call["method"], "hash": digest.hexdigest()}) + b"\n")
        result = f"0x{made[:64].hex()}{27 + made[64]:x}"
        return _json(orjson.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}))


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": "application/json"})


async def _payload(request: web.Request) -> bytes:
    return orjson.dumps(orjson.loads(await request.read())["encryptionPayload"])


def main() -> None:
    file, _, ready_file = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    floor = Floor(Path(file))
    app = web.Application()
    app.router.add_post("/session/new", floor.new_session)
    app.router.add_put("/session/{id}", floor.put_session)
    app.router.add_get("/session/{id}", floor.session)
    app.router.add_post("/session/{id}/call/new", floor.new_call)
    app.router.add_post("/call-status/{id}/new", floor.new_status)
    app.router.add_post("/rpc", floor.sign)

    def say_ready(_: str) -> None:
        Path(ready_file).write_text(json.dumps({"url": url, "pid": os.getpid()}))

    web.run_app(
        app, sock=listener, access_log=None, print=say_ready, loop=new_event_loop(), shutdown_timeout=0.1
    )


if __name__ == "__main__":
    main()
