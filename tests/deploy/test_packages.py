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
from dataclasses import dataclass
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
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The .pyz unpacks its libraries at its first start, once for all tests."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SHIV_ROOT", str(tmp_path_factory.mktemp("shiv")))
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
    with server_from_shell(tmp_path, program=[built / name]) as server:
        assert await pair_over(server.url) == ANSWERED
        async with aiohttp.ClientSession(server.url) as reader:
            for path, status in (
                ("protocol", 200),
                ("api", 200),
                ("errors/not-found", 200),
                ("nowhere", 404),
            ):
                async with reader.get(f"/docs/{path}") as response:
                    assert (path, response.status) == (path, status)
        assert server.stop(signal.SIGTERM) == 0  # the executable has a parent, which hands the signal on
    unit = _run(built / name, "service", "install", "--print").stdout
    assert f"\nExecStart={built / name} serve --config " in unit


def test_the_source_distribution_has_what_the_wheel_has(built: Path, tmp_path: Path) -> None:
    with tarfile.open(built / f"bridge_server-{VERSION}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    wanted = {
        str(file.relative_to(_ROOT))
        for file in (_ROOT / "bridge_server").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert wanted - names == set()
    guides = {f"bridge_server/description/pages/{file.name}" for file in (_ROOT / "docs").glob("*.md")}
    assert guides - names == set()


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


@dataclass(frozen=True, slots=True)
class Environment:
    """A fresh virtual environment."""

    folder: Path

    def run(self, *arguments: str | Path, cwd: Path | None = None) -> str:
        """The output of its Python, which must succeed."""
        return _output_of(self.folder / "bin" / "python", *arguments, cwd=cwd or self.folder)

    def uv_pip(self, word: str, *arguments: str) -> None:
        """Run a command of `uv pip` on it, which must succeed: pip takes six times as long."""
        python = self.folder / "bin" / "python"
        _output_of(python.with_name("uv"), "pip", word, "--python", python, *arguments, cwd=self.folder)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, built: Path) -> Environment:
    """One with pipx and uv, that can reach the package index, as the build could."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    _output_of(*pip, "install", "--quiet", "pipx", "uv", cwd=folder)
    return Environment(folder)


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(environment: Environment, wheel: Path, uv_cache: str) -> Environment:
    environment.uv_pip("install", "--cache-dir", uv_cache, f"{wheel}[pytest]", "web3", "eth-account")
    return environment


def test_the_wheel_and_web3_and_eth_account_agree_on_what_they_require(installed: Environment) -> None:
    installed.uv_pip("check")


def test_a_suite_uses_the_wheel_and_its_fixtures_beside_both(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(_SUITE)

    printed = installed.run("-m", "pytest", "-q", cwd=tmp_path)

    assert "4 passed" in printed


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (place,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(place).decode())

    assert (metadata["Name"], metadata["Version"], metadata["License"]) == ("bridge-server", VERSION, "MIT")
    assert REPOSITORY in (metadata["Home-page"] or "") + "".join(metadata.get_all("Project-URL") or [])
    assert str(metadata.get_payload()).startswith("# Bridge Server")
    assert any(name.endswith("/LICENSE") for name in names)
    assert {
        "bridge_server/py.typed",
        "bridge_server/console/layout/page.html",
        "bridge_server/console/static/htmx-LICENSE.txt",
        "bridge_server/description/layout/page.html",
        "bridge_server/description/pages/images/inbox.png",
        "bridge_server/description/pages/protocol.md",
        "bridge_server/description/problems.toml",
        "bridge_server/description/static/docs.css",
        "bridge_server/web/pages.css",
    } <= set(names)


# pipx, uv and uvx work in a checkout, with the lines of docs/operate.md; pip is a line of action.yml.


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is installed, so that nothing of the build is left in the project."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "constraints.txt"):
        shutil.copy(_ROOT / name, copy)
    ignored = shutil.ignore_patterns("__py*")
    shutil.copytree(_ROOT / "bridge_server", copy / "bridge_server", ignore=ignored)
    return copy


@pytest.fixture(scope="module")
def installers(environment: Environment) -> Path:
    """The directory of pipx and uv."""
    return environment.folder / "bin"


@pytest.fixture(scope="module")
def uv_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The wheel of the checkout, which uv builds once, also for pipx: beside uv, pipx installs with it."""
    return str(tmp_path_factory.mktemp("uv"))


def test_pipx_installs_a_checkout(
    checkout: Path, installers: Path, uv_cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", uv_cache)
    monkeypatch.setenv("PIPX_HOME", str(tmp_path / "pipx"))
    monkeypatch.setenv("PIPX_BIN_DIR", str(tmp_path / "bin"))
    _output_of(installers / "pipx", "install", ".", cwd=checkout)

    assert VERSION in _output_of(tmp_path / "bin" / "bridge-server", "version", cwd=tmp_path)


async def test_uv_installs_a_checkout(
    checkout: Path, installers: Path, uv_cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", uv_cache)
    for variable, folder in (("UV_TOOL_DIR", "tools"), ("UV_TOOL_BIN_DIR", "bin")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    _output_of(installers / "uv", "tool", "install", "--quiet", "--python", sys.executable, ".", cwd=checkout)

    with server_from_shell(tmp_path, program=[tmp_path / "bin" / "bridge-server"]) as server:
        assert await pair_over(server.url) == ANSWERED


def test_uvx_runs_a_checkout_without_installing_it(
    checkout: Path, installers: Path, uv_cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", uv_cache)
    line = ("--quiet", "--python", sys.executable, "--from", ".", "bridge-server", "version")

    assert VERSION in _output_of(installers / "uvx", *line, cwd=checkout)
