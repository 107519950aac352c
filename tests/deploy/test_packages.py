"""The ways to install it: files of scripts/build, the wheel beside web3.py, pipx, uv and uvx in a checkout.

pip is a line of action.yml.
"""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import aiohttp
import pytest

from bridge_server.kernel.version import REPOSITORY, VERSION
from tests.deploy.programs import ANSWERED, pair_over
from tests.support.command import server_from_shell
from tests.support.needs import LAZY_PIP, slow

pytestmark = [slow, pytest.mark.timeout(900)]

_ROOT = Path(__file__).parents[2]
_SECONDS = 600
_MADE_ALREADY = os.environ.get("BUILT_FILES")
"""A directory with the files of an earlier build."""


@pytest.fixture(scope="module", autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The .pyz unpacks its libraries once, and uv builds the wheel of the checkout once, also for pipx."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SHIV_ROOT", str(tmp_path_factory.mktemp("shiv")))
        environment.setenv("UV_CACHE_DIR", str(tmp_path_factory.mktemp("uv")))
        yield


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of scripts/build; the tests are skipped where it cannot install its tools."""
    if _MADE_ALREADY is not None:
        return Path(_MADE_ALREADY)
    target = tmp_path_factory.mktemp("dist")
    finished = _run(_ROOT / "scripts" / "build", target)
    if finished.returncode != 0 and "No matching distribution found" in finished.stderr:
        pytest.skip("scripts/build cannot reach the package index")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return target


def test_four_files_are_made(built: Path) -> None:
    assert sorted(file.name for file in built.iterdir()) == [
        "bridge-server",
        "bridge-server.pyz",
        f"bridge_server-{VERSION}-py3-none-any.whl",
        f"bridge_server-{VERSION}.tar.gz",
    ]


@pytest.mark.parametrize("name", ["bridge-server.pyz", "bridge-server"])
async def test_the_file_runs_a_server_over_which_a_dapp_and_a_wallet_meet(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    pages = {"protocol": 200, "api": 200, "errors/not-found": 200, "nowhere": 404}
    with server_from_shell(tmp_path, program=[built / name]) as server:
        assert await pair_over(server.url) == ANSWERED
        async with aiohttp.ClientSession(server.url) as reader:
            for path, status in pages.items():
                async with reader.get(f"/docs/{path}") as response:
                    assert (path, response.status) == (path, status)
        assert server.stop(signal.SIGTERM) == 0  # the executable has a parent, which hands the signal on
    unit = _run(built / name, "service", "install", "--print").stdout
    assert f"\nExecStart={built / name} serve --config " in unit


def test_the_source_distribution_has_what_the_wheel_has(built: Path) -> None:
    with tarfile.open(built / f"bridge_server-{VERSION}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    wanted = {
        str(file.relative_to(_ROOT))
        for file in (_ROOT / "bridge_server").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    guides = {f"bridge_server/description/pages/{file.name}" for file in (_ROOT / "docs").glob("*.md")}
    assert (wanted | guides) - names == set()


def _output_of(*command: str | Path, cwd: Path) -> str:
    finished = _run(*command, cwd=cwd)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def _run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **LAZY_PIP}, stdin=subprocess.DEVNULL, capture_output=True,
        encoding="utf-8", timeout=_SECONDS, check=False,
    )  # fmt: skip


# The package as others install it: a wheel, in an environment of its own, beside web3.py and eth-account.

_SUITE = """
import json
import os

from eth_account import Account
from eth_account.messages import encode_defunct
from web3 import HTTPProvider, Web3

from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.keystore import read_keystore
from bridge_server.ethereum.signing_key import SigningKey, personal_message_hash
from bridge_server.push.keys import new_vapid_keys


def test_both_use_one_cryptography():
    assert keccak256(b"bridge") == bytes(Web3.keccak(b"bridge"))
    secret = bytes(range(1, 33))
    signature = SigningKey(secret).sign(personal_message_hash(b"hello"))
    signer = Account.recover_message(encode_defunct(b"hello"), signature=signature)
    assert signer == Account.from_key(secret).address == SigningKey(secret).address
    for kdf in ("scrypt", "pbkdf2"):
        file = json.dumps(Account.encrypt(secret, "open sesame", kdf=kdf, iterations=4096)).encode()
        assert read_keystore(file).open(b"open sesame") == secret  # scrypt or PBKDF2, and AES
    new_vapid_keys(os.urandom)


def test_the_wallets_signature_is_the_accounts(bridge, bridge_wallet):
    dapp = bridge.dapp("Example")
    bridge_wallet.pair(dapp.uri)
    account = dapp.approval().accounts[0]
    signature = dapp.call("personal_sign", ["0x68656c6c6f", account])
    assert Account.recover_message(encode_defunct(b"hello"), signature=signature) == account


def test_web3_sends_through_the_bridge(bridge, bridge_node):
    web3 = Web3(HTTPProvider(bridge.rpc_url))
    sender, receiver = web3.eth.accounts[0], Account.create().address
    sent = web3.eth.send_transaction({"from": sender, "to": receiver, "value": 5})
    assert web3.eth.wait_for_transaction_receipt(sent)["status"] == 1
    assert bridge_node.balance(receiver) == web3.eth.get_balance(receiver) == 10_000 * 10**18 + 5


def test_an_account_of_eth_account_has_an_inbox(bridge_project):
    account = Account.create()
    inbox = bridge_project.inbox(account)
    inbox.subscribe()
    bridge_project.notify(account, title="Hello")
    assert inbox.next(wait=20).title == "Hello"
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory, built: Path) -> Path:
    """The programs of an environment with pipx and uv, which reaches the package index as the build does."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    _output_of(*pip, "install", "--quiet", "pipx", "uv", cwd=folder)
    return folder / "bin"


def test_a_suite_uses_the_wheel_beside_web3_and_eth_account(built: Path, tools: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    python, libraries = tools / "python", ("web3", "eth-account")
    # uv, for pip takes six times as long.
    _output_of(
        tools / "uv", "pip", "install", "--python", python, f"{wheel}[pytest]", *libraries, cwd=tmp_path
    )
    _output_of(tools / "uv", "pip", "check", "--python", python, cwd=tmp_path)
    (tmp_path / "test_suite.py").write_text(_SUITE)

    assert "4 passed" in _output_of(python, "-m", "pytest", "-q", cwd=tmp_path)


def test_the_wheel_says_what_it_is(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (place,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(place).decode())

    assert (metadata["Name"], metadata["Version"], metadata["License"]) == ("bridge-server", VERSION, "MIT")
    assert REPOSITORY in (metadata["Home-page"] or "") + "".join(metadata.get_all("Project-URL") or [])
    assert str(metadata.get_payload()).startswith("# Bridge Server")
    assert any(name.endswith("/LICENSE") for name in names)
    files = (
        *("py.typed", "console/layout/page.html", "console/static/htmx-LICENSE.txt", "web/pages.css"),
        *("description/layout/page.html", "description/static/docs.css", "description/problems.toml"),
        *("description/pages/images/inbox.png", "description/pages/protocol.md"),
    )
    assert {f"bridge_server/{file}" for file in files} <= set(names)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what is installed, so that nothing of the build is left in the project."""
    copy = tmp_path / "checkout"
    shutil.copytree(_ROOT / "bridge_server", copy / "bridge_server", ignore=shutil.ignore_patterns("__py*"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "constraints.txt"):
        shutil.copy(_ROOT / name, copy)
    return copy


async def test_pipx_uv_and_uvx_work_in_a_checkout_with_the_lines_of_the_guide(
    checkout: Path, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("PIPX_HOME", "PIPX_BIN_DIR", "UV_TOOL_DIR", "UV_TOOL_BIN_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    quiet = ("--quiet", "--python", sys.executable)
    _output_of(tools / "pipx", "install", ".", cwd=checkout)
    _output_of(tools / "uv", "tool", "install", *quiet, ".", cwd=checkout)
    by_pipx, by_uv = (tmp_path / folder / "bridge-server" for folder in ("PIPX_BIN_DIR", "UV_TOOL_BIN_DIR"))

    assert VERSION in _output_of(by_pipx, "version", cwd=tmp_path)
    by_uvx = _output_of(tools / "uvx", *quiet, "--from", ".", "bridge-server", "version", cwd=checkout)
    assert VERSION in by_uvx
    with server_from_shell(tmp_path, program=[by_uv]) as server:
        assert await pair_over(server.url) == ANSWERED
