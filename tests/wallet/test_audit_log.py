"""The audit log: a line for each signature before it leaves, never a secret, and read from its end.

White-box: over HTTP, rotation and reading by parts would take thousands of requests.
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.rlp import decode, number_of
from bridge_server.ethereum.signing_key import recover_address
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kit.testing.fake_node import FakeNode
from bridge_server.wallet import signing
from bridge_server.wallet.models import Address, AuditEntry, Caller
from bridge_server.wallet.signing import MOST_BYTES, AuditLog, read_history
from tests.ethereum.typed_data_examples import mail
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient, result_of
from tests.support.server import RunningServer, running_server, server_process
from tests.support.waiting import eventually

ADDRESS = DEVELOPMENT_ADDRESS
KEY = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
LOCKED = "0x2c7536e3605d9c16a7a3d7b1898e529396a65c23"
PASSPHRASE = "correct horse battery staple"
MESSAGE = f"0x{b'a message that nobody else shall read'.hex()}"
TRANSACTION = {"from": ADDRESS, "to": LOCKED, "gas": "0x5208", "gasPrice": "0x1", "nonce": "0x0"}
SIGNING: list[tuple[str, tuple[Any, ...]]] = [
    ("personal_sign", (MESSAGE, ADDRESS)),
    ("personal_sign", (MESSAGE, LOCKED, PASSPHRASE)),
    ("eth_sign", (ADDRESS, MESSAGE)),
    ("eth_signTypedData", (ADDRESS, mail())),
    ("eth_signTypedData_v3", (ADDRESS, mail())),
    ("eth_signTypedData_v4", (ADDRESS, mail())),
    ("eth_signTransaction", (TRANSACTION,)),
    ("eth_sendTransaction", ({**TRANSACTION, "chainId": "0x1"},)),
]


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the work of each second be done at once."""
    monkeypatch.setattr(signing, "_SYNC_SECONDS", 0.005)


@pytest.fixture
def node(fake: FakeNode) -> FakeNode:
    """A node on the chain that the typed data is for."""
    fake.results["eth_chainId"] = "0x1"
    return fake


@asynccontextmanager
async def signing_wallet(data_dir: Path, node: FakeNode) -> AsyncIterator[RpcClient]:
    """A wallet with the development accounts, a locked one, and a node."""
    settings: dict[str, Any] = {"dev_accounts": True, "light_kdf": True, "node_url": node.url}
    async with running_server(data_dir, **settings) as server:
        rpc = RpcClient(server)
        await rpc.call("personal_importRawKey", KEY, PASSPHRASE)
        yield rpc


def lines_of(content: bytes) -> list[dict[str, Any]]:
    """The lines of the log, each of them whole."""
    assert content == b"" or content.endswith(b"\n")
    return [orjson.loads(line) for line in content.splitlines()]


def audited(server: RunningServer) -> list[dict[str, Any]]:
    return lines_of(server.settings.audit_file.read_bytes())


def signature_in(raw: str) -> bytes:
    """The signature (r, s, v of 0 or 1) of a raw legacy transaction on chain 1."""
    fields = decode(bytes.fromhex(raw[2:]))
    assert not isinstance(fields, bytes)
    v, r, s = map(number_of, fields[-3:])
    return r.to_bytes(32) + s.to_bytes(32) + bytes([v - 37])


async def test_each_signature_has_a_line_with_its_hash_and_no_secret(tmp_path: Path, node: FakeNode) -> None:
    secrets = [KEY[2:], PASSPHRASE, MESSAGE[2:], "nobody else shall read", "Hello, Bob!"]
    async with signing_wallet(tmp_path / "data", node) as rpc:
        for method, params in SIGNING:
            answered = await rpc.call(method, *params)

            line = audited(rpc.server)[-1]
            account = LOCKED if LOCKED in params else ADDRESS
            assert line["approval"] is None
            at = "2027-01-15T08:00:00.000Z"
            assert (line["method"], line["account"], line["at"]) == (method, account, at)
            raw = {"eth_signTransaction": answered, "eth_sendTransaction": "".join(node.sent())}.get(method)
            signature = bytes.fromhex(answered[2:]) if raw is None else signature_in(raw)
            signer = recover_address(bytes.fromhex(line["hash"][2:]), signature)
            assert signer.lower() == account, method
            transaction_hash = None if raw is None else f"0x{keccak256(bytes.fromhex(raw[2:])).hex()}"
            assert line["transaction_hash"] == transaction_hash
            secrets.append(raw or answered)
        content = rpc.server.settings.audit_file.read_text()

    assert content.count("\n") == len(SIGNING)
    assert [secret for secret in secrets if secret in content] == []


@pytest.mark.usefixtures("prompt")
async def test_nothing_is_signed_until_the_log_can_be_written(tmp_path: Path, node: FakeNode) -> None:
    path = tmp_path / "data" / "audit.log"
    path.parent.mkdir()
    path.symlink_to("/dev/full")
    async with signing_wallet(path.parent, node) as rpc:
        errors = [await rpc.error(method, *params) for method, params in SIGNING]
        assert {(error.code, error.message) for error in errors} == {
            (-32002, "Nothing was signed: the audit log cannot be written (No space left on device).")
        }
        assert (await rpc.call("wallet_getQueuedTransaction"), node.sent()) == (None, [])

        path.unlink()
        await eventually(path.exists)
        assert len(await rpc.call("eth_sign", ADDRESS, MESSAGE)) == 132
        assert len(audited(rpc.server)) == 1


async def test_a_line_names_the_client_and_a_truncated_one_spoils_no_other(tmp_path: Path) -> None:
    page = "https://app.example.org"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "audit.log").write_bytes(b'{"at":"2026-01-31T12:00:00.000Z","meth')
    async with running_server(tmp_path / "data", dev_accounts=True, rpc_origins=[page]) as server:
        rpc = RpcClient(server, {"Origin": page})
        calls = [rpc.request("eth_sign", ADDRESS, MESSAGE), rpc.request("personal_sign", MESSAGE, ADDRESS)]
        answer = await rpc.post(orjson.dumps(calls))
        await rpc.post(orjson.dumps(calls[0]), {"X-Request-ID": "mine-1"})

    broken, _, whole = server.settings.audit_file.read_bytes().partition(b"\n")
    lines = lines_of(whole)
    assert broken.endswith(b'"meth')
    assert {(line["client"], line["origin"]) for line in lines} == {("127.0.0.1", page)}
    request_id = answer.headers["X-Request-ID"]
    assert [line["request_id"] for line in lines] == [request_id, request_id, "mine-1"]


@pytest.mark.usefixtures("prompt")
async def test_renaming_the_file_rotates_it(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", dev_accounts=True) as server:
        rpc, path = RpcClient(server), server.settings.audit_file
        await rpc.call("eth_sign", ADDRESS, MESSAGE)
        rotated = path.rename(path.with_suffix(".1"))
        await eventually(path.exists)
        await rpc.call("personal_sign", MESSAGE, ADDRESS)
        assert [line["method"] for line in lines_of(rotated.read_bytes())] == ["eth_sign"]
        assert [line["method"] for line in audited(server)] == ["personal_sign"]
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("prompt")
async def test_rotation_loses_and_breaks_no_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    audit = AuditLog(path)
    entry = AuditEntry(0, "eth_sign", Address(ADDRESS), "0x00", Caller("127.0.0.1"))

    def append_many() -> None:
        for _ in range(3_000):
            audit.append(entry)

    async with audit.opened():
        with ThreadPoolExecutor(2) as threads:
            writers = [asyncio.wrap_future(threads.submit(append_many)) for _ in range(2)]
            rotated: list[Path] = []
            while not all(writer.done() for writer in writers):
                rotated.append(path.rename(path.with_suffix(f".{len(rotated)}")))
                await eventually(path.exists)
            await asyncio.gather(*writers)
    lines = chain.from_iterable(lines_of(file.read_bytes()) for file in (*rotated, path))

    assert len(list(lines)) == 6_000
    with pytest.raises(UnavailableError):
        audit.append(entry)


async def test_every_answer_has_its_line_though_the_server_is_killed(tmp_path: Path) -> None:
    answered: list[str] = []

    async def sign(client: aiohttp.ClientSession, url: str) -> None:
        body = {"jsonrpc": "2.0", "id": 1, "method": "personal_sign", "params": [MESSAGE, ADDRESS]}
        while True:
            async with client.post(url, json=body) as response:
                assert result_of(orjson.loads(await response.read()))
                answered.append(response.headers["X-Request-ID"])

    with server_process(tmp_path / "data", "--dev-accounts") as server:
        async with aiohttp.ClientSession() as client:
            clients = [asyncio.create_task(sign(client, server.facts["rpc_url"])) for _ in range(4)]
            await eventually(lambda: len(answered) >= 100)
            server.kill()
            await asyncio.wait(clients)
    lines = lines_of((tmp_path / "data" / "audit.log").read_bytes())

    assert all(isinstance(each.exception(), aiohttp.ClientError) for each in clients)
    assert set(answered) <= {line["request_id"] for line in lines}


def line(number: int, size: int = 0) -> bytes:
    return orjson.dumps({"number": number, "text": "x" * size}) + b"\n"


def numbers(file: Path, limit: int, most_bytes: int = MOST_BYTES) -> list[int]:
    """All entries, page by page."""
    found: list[dict[str, Any]] = []
    before = None
    while True:
        page = read_history(file, before, limit, most_bytes)
        assert len(page.entries) <= limit
        found += page.entries
        if page.rest is None:
            return [entry["number"] for entry in found]
        assert before is None or page.rest < before
        before = page.rest


@each_row("limit", [1, 7])
@each_row("count", [0, 7, 500])
def test_pages_have_every_line_once(tmp_path: Path, count: int, limit: int) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(b"".join(line(number, 300) for number in range(count)))
    assert numbers(file, limit) == list(reversed(range(count)))


def test_a_page_reads_a_part_of_a_long_file_without_lines_that_are_longer(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(b"".join(line(number, 20_000) for number in range(30)))
    assert 1 < len(read_history(file, None, 1000, 2**17).entries) < 10
    assert numbers(file, 1000, 2**17) == list(reversed(range(30)))
    file.write_bytes(line(0) + line(1, 2**19) + line(2))
    assert numbers(file, 10, 2**17) == [2, 0]


@each_row("broken", [b'{"number":', b"\n", b"[1]\n", b"\xff\n", b'{"number":' + b"\n"])
def test_a_line_that_is_no_entry_is_left_out(tmp_path: Path, broken: bytes) -> None:
    file = tmp_path / "audit.log"
    end = b"" if broken.endswith(b"\n") else b"\n"
    file.write_bytes(line(0) + broken + end + line(1) + broken)
    assert numbers(file, 1) == [1, 0]


def test_a_file_that_was_replaced_by_a_shorter_one_is_read_from_its_end(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(line(0))
    assert [entry["number"] for entry in read_history(file, 10**9, 5).entries] == [0]
    assert read_history(tmp_path / "none", None, 5).entries == []
    with pytest.raises(UnavailableError):
        read_history(tmp_path, None, 5)
