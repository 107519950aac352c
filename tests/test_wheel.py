"""The package as others install it: a wheel, in an environment of its own, beside web3.py and eth-account."""

import os
import shutil
import subprocess
import venv
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

import orjson
import pytest

from bridge_server.kernel.version import REPOSITORY, VERSION
from tests.support.lazy_pip import LAZY_PIP
from tests.support.slow import slow

pytestmark = [slow, pytest.mark.timeout(900)]

_ROOT = Path(__file__).parent.parent
_SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
_WORK = """
from eth_account import Account
from eth_account.messages import encode_defunct
from web3 import Web3

from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.keystore import read_keystore
from bridge_server.ethereum.signing_key import personal_message_hash
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.push.keys import new_vapid_keys

import json, os

assert keccak256(b"bridge") == bytes(Web3.keccak(b"bridge"))

secret = bytes(range(1, 33))
signature = SigningKey(secret).sign(personal_message_hash(b"hello"))
signer = Account.recover_message(encode_defunct(b"hello"), signature=signature)
assert signer == Account.from_key(secret).address == SigningKey(secret).address

for kdf in ("scrypt", "pbkdf2"):
    file = json.dumps(Account.encrypt(secret, "open sesame", kdf=kdf, iterations=4096)).encode()
    assert read_keystore(file).open(b"open sesame") == secret  # scrypt or PBKDF2, and AES

new_vapid_keys(os.urandom)
print("it works")
"""


_SUITE = """
from eth_account import Account
from eth_account.messages import encode_defunct
from web3 import HTTPProvider, Web3


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
    assert inbox.next(wait=5).title == "Hello"
"""


@dataclass(frozen=True, slots=True)
class Environment:
    """A fresh virtual environment."""

    folder: Path

    def run(self, *arguments: str | Path, cwd: Path | None = None) -> str:
        """What its Python prints, which must succeed."""
        finished = self.tried(*arguments, cwd=cwd)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    def tried(self, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [self.folder / "bin" / "python", *arguments]
        return subprocess.run(
            command,
            cwd=cwd or self.folder,
            env={**os.environ, **LAZY_PIP},
            capture_output=True,
            encoding="utf-8",
            timeout=600,
            check=False,
        )


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """One that can reach the package index; without it the tests are skipped."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    environment = Environment(folder)
    found = environment.tried("-m", "pip", "download", "--no-deps", "--dest", folder / "found", "setuptools")
    if found.returncode != 0:
        pytest.skip(f"the package index cannot be reached: {found.stderr.strip().splitlines()[-1]}")
    return environment


@pytest.fixture(scope="module")
def wheel(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of a copy, so that nothing of the build is left in the project."""
    source = tmp_path_factory.mktemp("source")
    for name in _SOURCES:
        shutil.copy(_ROOT / name, source)
    shutil.copytree(_ROOT / "bridge_server", source / "bridge_server", ignore=shutil.ignore_patterns("__py*"))
    environment.run("-m", "pip", "wheel", "--no-deps", "--wheel-dir", source / "dist", source)
    (wheel,) = (source / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(environment: Environment, wheel: Path) -> Environment:
    environment.run("-m", "pip", "install", f"{wheel}[pytest]", "web3", "eth-account")
    return environment


def test_wheel_works_beside_web3_and_eth_account(installed: Environment) -> None:
    assert installed.run("-m", "pip", "check").strip() == "No broken requirements found."
    assert installed.run("-c", _WORK).strip() == "it works"


def test_a_suite_uses_the_fixtures_of_pytest_beside_both(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(_SUITE)

    printed = installed.run("-m", "pytest", "-q", cwd=tmp_path)

    assert "3 passed" in printed


def test_the_command_makes_a_database(installed: Environment, tmp_path: Path) -> None:
    command = ("-m", "bridge_server", "project", "create", "App", "--data-dir", tmp_path / "data", "--json")

    assert orjson.loads(installed.run(*command))["name"] == "App"
    assert VERSION in installed.run("-m", "bridge_server", "--version")


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
        "bridge_server/console/static/console.css",
        "bridge_server/console/static/htmx-LICENSE.txt",
        "bridge_server/description/layout/page.html",
        "bridge_server/description/pages/images/inbox.png",
        "bridge_server/description/pages/protocol.md",
        "bridge_server/description/problems.toml",
        "bridge_server/description/static/docs.css",
    } <= set(names)
