"""`account`: key files beside a server or without one, and a running server's accounts unlocked.

White-box: the pause after a wrong passphrase has no setting, and would be slept through.
"""

import asyncio
import json
import os
import pty
import socket
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bridge_server.ethereum.keystore import ScryptCost, make_keystore, read_keystore
from bridge_server.ethereum.signing_key import SigningKey, personal_message_hash, recover_address
from bridge_server.kit.testing.server import environment_without_settings
from bridge_server.storage.data_directory import held
from tests.cli.conftest import Invoke, Operating, SetUp
from tests.client.gate import saying
from tests.support.programs import fork_server
from tests.support.rows import each_row
from tests.support.rpc_client import RpcClient
from tests.support.server import running_server, server_process
from tests.support.webhook_receiver import WebhookReceiver

KEY = f"0x{1:064x}"
ADDRESS = SigningKey((1).to_bytes(32)).address
OTHER = SigningKey((2).to_bytes(32)).address
PASSPHRASE = "open sesame"
DEVELOPMENT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"


@pytest.fixture(autouse=True)
def quick_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_LIGHT_KDF", "true")
    monkeypatch.setattr("bridge_server.wallet.accounts._PAUSE_SECONDS", 0)


@pytest.fixture
def account(invoke: Invoke, tmp_path: Path) -> Operating:
    """`account` commands, with a passphrase on standard input."""
    return Operating(invoke, tmp_path / "data", "account", f"{PASSPHRASE}\n")


def key_file(passphrase: str = PASSPHRASE) -> bytes:
    key, cost = (1).to_bytes(32), ScryptCost(n=2, r=8, p=1)
    return make_keystore(key, passphrase.encode(), cost=cost, salt=bytes(32), iv=bytes(16), uuid="an-id")


def opened(file: str | Path, passphrase: bytes = PASSPHRASE.encode()) -> str:
    """The address of the key that the passphrase opens."""
    return SigningKey(read_keystore(Path(file).read_bytes()).open(passphrase)).address


def test_a_new_account_is_a_sealed_key_file(account: Operating, set_up: SetUp, tmp_path: Path) -> None:
    made = account.json("new")
    set_up(keystore_dir=tmp_path / "elsewhere")
    address, line = account.text("new").splitlines()

    assert opened(made["file"]) == made["address"]
    assert Path(made["file"]).parent == account.data_dir / "keystore"
    assert stat.S_IMODE(Path(made["file"]).stat().st_mode) == 0o600
    assert not (account.data_dir / "bridge.sqlite3").exists()
    (listed,) = account.json("list")["accounts"]
    assert (address, line) == (listed["address"], f"key file: {listed['file']}")
    assert Path(listed["file"]).parent == tmp_path / "elsewhere"
    for passphrase in (b" spaces around ", "pässwörd \N{KEY}".encode(), b"\xff\xfe", b""):
        (tmp_path / "passphrase").write_bytes(passphrase + b"\nanother line\n")
        by_input = account.json("new", stdin=passphrase + b"\r\n")
        by_file = account.json("new", "--passphrase-file", tmp_path / "passphrase", stdin="")
        for made in (by_input, by_file):
            assert opened(made["file"], passphrase) == made["address"], passphrase


@each_row(
    ("arguments", "stdin", "refusal"),
    [
        (("new",), "", "there is no passphrase: write it to standard input, or name a --passphrase-file"),
        (("new", "--passphrase-file", "/no"), None, "/no cannot be read: No such file or directory"),
        (("export", ADDRESS), None, f"there is no key file of {ADDRESS} in {{keystore}}"),
        (("unlock", ADDRESS, "--url", "http://127.0.0.1:9"), b"\xff\n",
         "the passphrase is not text in UTF-8: it cannot be sent to the server"),
        (("unlock", ADDRESS), None, "the server listens on any free port: name its address with --url"),
        (("import",), f"{KEY}\n{PASSPHRASE}\n",
         "standard input gives the key: name the passphrase's file with --passphrase-file"),
    ],
)  # fmt: skip
def test_a_command_that_lacks_something_says_what_to_do(
    account: Operating, set_up: SetUp, arguments: tuple[str, ...], stdin: str | bytes | None, refusal: str
) -> None:
    set_up(port=0)
    keystore = account.data_dir / "keystore"
    assert account.refusal(*arguments, stdin=stdin) == refusal.format(keystore=keystore)
    assert not keystore.exists()


def test_a_terminal_is_asked_twice_and_shows_nothing(account: Operating) -> None:
    terminal, end = pty.openpty()
    command = ["account", "new", "--data-dir", str(account.data_dir)]
    session = "import os; os.setsid(); from bridge_server.cli.main import main; main()"
    with (account.data_dir.parent / "out").open("wb") as out:
        process = fork_server().start(command, environment_without_settings(), end, out, end, program=session)
    os.close(end)
    shown = b""
    for question, answer in (
        (b"Passphrase: ", b"one thing"), (b"Repeat the passphrase: ", b"another"),
        (b"Passphrase: ", b"the same"), (b"Repeat the passphrase: ", b"the same"),
    ):  # fmt: skip
        part = b""
        while not part.endswith(question):
            part += os.read(terminal, 1024)
        os.write(terminal, answer + b"\n")
        shown += part
    assert process.wait(60) == 0
    os.close(terminal)

    (file,) = (account.data_dir / "keystore").iterdir()
    assert opened(file, b"the same") == Path(out.name).read_text().splitlines()[0]
    assert b"the same" not in shown


def test_accounts_are_listed_with_their_source(account: Operating, set_up: SetUp, tmp_path: Path) -> None:
    assert account.text("list").startswith("there are no accounts in these settings, and no server runs on")
    assert account.json("list") == {"accounts": []}
    assert not account.data_dir.exists()
    (tmp_path / "keys").write_text(f"# of the shop\n{KEY}\n")
    set_up(dev_accounts=True, dev_account_count=1, private_keys=f"{2:064x}")
    set_up(private_keys_file=tmp_path / "keys")
    made = account.json("new")
    accounts = account.json("list")["accounts"]

    assert accounts == [
        {"address": DEVELOPMENT, "source": "development", "file": None},
        {"address": OTHER, "source": "raw-key", "file": None},
        {"address": ADDRESS, "source": "raw-key", "file": None},
        {"address": made["address"], "source": "keystore", "file": made["file"]},
    ]
    assert [line.split() for line in account.text("list").splitlines()] == [
        ["account", "key", "file"],
        *([row["address"], row["source"], row["file"] or "-"] for row in accounts),
    ]


def test_a_running_server_lists_accounts_for_its_token(account: Operating, set_up: SetUp) -> None:
    flags = ("--dev-accounts", "--set", "dev_account_count=1", "--set", f"private_keys={2:064x}")
    with server_process(account.data_dir, "--set", "private_keys=none") as server:
        assert account.text("list").startswith(f"the server at {server.url} has no accounts")
        assert account.json("list") == {"accounts": []}
    made = account.json("new")
    with server_process(account.data_dir, *flags, environment={"BRIDGE_RPC_TOKEN": "the first"}):
        without = account("list", "--json")
        set_up(rpc_token="the second", rpc_token_previous="the first")
        listed = account.json("list")["accounts"]
        unlocked = account.json("unlock", made["address"], "--seconds", "0")

    from_key_file = {"address": made["address"], "source": "keystore", "file": made["file"]}
    assert json.loads(without.stdout)["accounts"] == [from_key_file]
    (line,) = without.stderr.splitlines()
    assert "rpc_token" in line
    assert listed == [
        {"address": DEVELOPMENT, "source": "development", "file": None},
        {"address": OTHER, "source": "server", "file": None},
        from_key_file,
    ]
    assert unlocked == {"address": made["address"], "seconds": 0}


@pytest.mark.parametrize("source", ["file", "-", None])
def test_a_private_key_is_imported_once(account: Operating, tmp_path: Path, source: str | None) -> None:
    (tmp_path / "key").write_text(f"  {KEY.upper().replace('X', 'x')}\n\n")
    (tmp_path / "passphrase").write_text(PASSPHRASE)
    named = [] if source is None else [tmp_path / "key" if source == "file" else source]
    command = ("import", *named, "--passphrase-file", tmp_path / "passphrase")

    imported = account.json(*command, stdin=KEY)

    assert imported["address"] == opened(imported["file"]) == ADDRESS
    assert "never overwritten" in account.refusal(*command, stdin=KEY)
    assert account.text("export", ADDRESS, "--raw") == f"{KEY}\n"
    assert account.json("export", ADDRESS, "--raw") == {"address": ADDRESS, "private_key": KEY}
    refusal = account.refusal("export", ADDRESS, "--raw", stdin="wrong\n")
    assert refusal.startswith(f"the key file of {ADDRESS} cannot be opened: the passphrase is wrong")
    output = tmp_path / "exported"
    assert account.text("export", ADDRESS, "--raw", "--output", output) == ""
    assert (output.read_text(), stat.S_IMODE(output.stat().st_mode)) == (f"{KEY}\n", 0o600)


def test_a_key_file_is_imported_and_exported_as_it_is(account: Operating, tmp_path: Path) -> None:
    (tmp_path / "key.json").write_bytes(key_file())
    imported = account.json("import", tmp_path / "key.json")
    assert imported["address"] == ADDRESS
    assert Path(imported["file"]).read_bytes() == key_file()
    assert account.text("export", ADDRESS.lower(), stdin="").encode() == key_file() + b"\n"


def test_what_is_no_key_is_refused_unrepeated(account: Operating, set_up: SetUp, tmp_path: Path) -> None:
    key, other = tmp_path / "key", tmp_path / "key.json"
    other.write_bytes(key_file(passphrase="another"))
    for content in ("", "ff" * 32, "secret \N{KEY}"):
        key.write_text(content)
        refusal = account.refusal("import", key)
        assert refusal.startswith("this is neither a key file nor a private key: a private key ")
        assert content == "" or content not in refusal
    assert account.refusal("import", other) == (
        "The key file cannot be opened: the passphrase is wrong, or the file is damaged."
    )
    assert account.json("list") == {"accounts": []}
    for command in ("export", "unlock"):
        assert account.refusal(command, "bob").startswith("bob ")
    set_up(private_keys_file="/nowhere/5ec7e7")
    assert account.refusal("list").startswith("private_keys_file: /nowhere/5ec7e7 cannot be")


async def test_a_server_that_runs_sees_at_once_what_commands_do(account: Operating) -> None:
    async with running_server(account.data_dir) as server:
        wallet = RpcClient(server)
        before = await wallet.call("eth_accounts")
        address = (await asyncio.to_thread(account.json, "new"))["address"]
        after = await wallet.call("eth_accounts")
        locked = await wallet.error("personal_sign", "0x61", address)
        wrong = await asyncio.to_thread(account.refusal, "unlock", address, "--url", server.url, stdin="no\n")
        await asyncio.to_thread(account.json, "unlock", address, "--seconds", "60", "--url", server.url)
        signature = bytes.fromhex((await wallet.call("personal_sign", "0x61", address))[2:])
        server.clock.advance(60)
        locked_again = await wallet.error("personal_sign", "0x61", address)

    assert (before, after) == ([], [address.lower()])
    assert (locked.code, locked_again.code) == (4100, 4100)
    assert wrong == f"the server refused: The passphrase does not open the account {address.lower()}."
    assert recover_address(personal_message_hash(b"a"), signature) == address


RESULT = json.dumps({"jsonrpc": "2.0", "id": 1, "result": True}).encode()


@each_row("left", [None, "", '{"url": 7}'])
async def test_a_server_that_is_gone_or_left_nothing_of_use_is_looked_for_as_the_settings_say(
    account: Operating, receiver: WebhookReceiver, set_up: SetUp, left: str | None
) -> None:
    set_up(port=receiver.port, rpc_token="the-token")
    receiver.otherwise = saying(RESULT)
    receiver.requests.clear()
    with ExitStack() as running:
        if left is not None:
            running.enter_context(held(account.data_dir))
        account.data_dir.mkdir(exist_ok=True)
        gone = '{"url": "http://127.0.0.1:9"}'
        (account.data_dir / "server.json").write_text(gone if left is None else left)
        told = await asyncio.to_thread(account.json, "unlock", ADDRESS, "--seconds", "60")

    assert told == {"address": ADDRESS, "seconds": 60}
    (request,) = receiver.requests
    assert (request.path, request.headers["Authorization"]) == ("/rpc", "Bearer the-token")
    call = json.loads(request.body)
    assert call["method"] == "personal_unlockAccount"
    assert call["params"] == [ADDRESS.lower(), PASSPHRASE, 60]


async def test_another_server_unlocks_or_refuses(account: Operating, receiver: WebhookReceiver) -> None:
    url = receiver.url("")
    receiver.script.append(saying(RESULT))
    told = await asyncio.to_thread(account.text, "unlock", ADDRESS, "--url", f"{url}/")
    assert told == f"{ADDRESS} is unlocked for 300 seconds\n"
    (request,) = receiver.requests
    assert "Authorization" not in request.headers
    assert json.loads(request.body)["params"] == [ADDRESS.lower(), PASSPHRASE, 300]

    token = "requires its rpc_token: give it to this command too, as BRIDGE_RPC_TOKEN or with --config"
    rows: list[tuple[int, Any, str]] = [
        (200, {"error": {"code": 4100, "message": "No."}}, "the server refused: No."),
        (403, {"title": "Who?", "detail": "Go."}, "the server refused: Go."),
        (401, {"title": "Who?", "detail": "Send a token."}, f"the server {token}"),
        (404, ["x"], f"the server at {url} is not a bridge server (status 404)"),
        (200, {"id": 1, "error": "?"}, f"the server at {url} is not a bridge server (status 200)"),
    ]
    for status, answer, message in rows:
        receiver.otherwise = saying(json.dumps(answer).encode(), status)
        assert await asyncio.to_thread(account.refusal, "unlock", ADDRESS, "--url", url) == message


def test_a_url_at_which_no_server_answers_is_reported(account: Operating) -> None:
    for url in ("", "ftp://x", "http://[", "http://x:99999"):
        refusal = account.refusal("unlock", ADDRESS, "--url", url)
        assert refusal.startswith(("--url must be ", "--url is not a URL")), url
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        refusal = account.refusal("unlock", ADDRESS, "--url", url)
    assert refusal == f"no server answers at {url}: start it, or name another with --url"
