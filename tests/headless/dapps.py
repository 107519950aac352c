"""Dapps of every generation opposite a headless wallet, and the wallet as a command of its own."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bridge_server.kernel.clock import SystemClock
from bridge_server.kit.client import Dapp, Generation, Pace
from bridge_server.kit.headless import HeadlessSession, HeadlessWallet
from bridge_server.kit.testing.server import environment_without_settings
from tests.support.clock import ManualClock
from tests.support.programs import fork_server
from tests.support.server import RunningServer, running_server
from tests.support.waiting import until

GENERATIONS: tuple[Generation, ...] = ("plain", "0.7", "1.x", "2.x")
FIRST = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
SECOND = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
HELLO = "0x68656c6c6f"
PAGE = "https://dapp.example"
BRISK = Pace(pause_seconds=0.01, first_retry_seconds=0.005, longest_retry_seconds=0.02, patience_seconds=60.0)
SIGN = ("personal_sign", [HELLO, FIRST])
METHODS = [
    *("personal_sign", "eth_sendTransaction", "eth_signTypedData_v4", "eth_accounts"),
    *("wallet_switchEthereumChain", "odd_method"),
]
EVENTS = ["chainChanged", "accountsChanged"]
NAMESPACES = {"eip155": {"chains": ["eip155:31337"], "methods": METHODS, "events": EVENTS}}
_STOP_SECONDS = 60.0


@asynccontextmanager
async def relay_at(data_dir: Path, **settings: Any) -> AsyncIterator[RunningServer]:
    """A server whose clock stands at the present, for it checks the tokens of generation 2.x."""
    async with running_server(data_dir, ManualClock(SystemClock().now_ms()), **settings) as server:
        yield server


def to_the_present(server: RunningServer) -> None:
    """Set the clock of a server that has stood still."""
    server.clock.set_by((SystemClock().now_ms() - server.clock.now_ms()) / 1_000)


def dapp_at(url: str, generation: Generation) -> Dapp:
    """A dapp of the generation, in its own dialect of the bridge."""
    bridge = f"{url}/compat/v0.7" if generation == "0.7" else url
    namespaces = NAMESPACES if generation == "2.x" else None
    return Dapp(
        bridge, name="Example Dapp", url=PAGE, generation=generation, namespaces=namespaces, pace=BRISK
    )


@asynccontextmanager
async def paired(
    wallet: HeadlessWallet, url: str, generation: Generation
) -> AsyncIterator[tuple[Dapp, HeadlessSession]]:
    """A dapp, and its session with the wallet."""
    async with dapp_at(url, generation) as dapp:
        session = await wallet.pair(dapp.uri, relay_url=url)
        yield dapp, session


@dataclass(frozen=True, slots=True)
class WalletProcess:
    """A wallet in a process of its own, with its control API."""

    process: subprocess.Popen[bytes]
    facts: dict[str, Any]

    @property
    def headers(self) -> dict[str, str]:
        """The token of the control API."""
        return {"Authorization": f"Bearer {self.facts['token']}"}

    def resident_mib(self) -> float:
        """The memory that it has now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024

    def stop(self) -> int:
        """End it with SIGTERM; returns the exit code."""
        self.process.terminate()
        return self.process.wait(_STOP_SECONDS)


@contextmanager
def wallet_process(folder: Path, *arguments: str | Path) -> Iterator[WalletProcess]:
    """Run the command with a control API until the end of the block."""
    ready_file = folder / "wallet.json"
    listening = ("--listen", "127.0.0.1:0", "--ready-file", str(ready_file))
    with (folder / "wallet.out").open("wb") as out, (folder / "wallet.err").open("wb") as err:
        words = ["wallet", *listening, *map(str, arguments)]
        process = fork_server().start(words, environment_without_settings(), err, out)
    try:

        def is_ready() -> bool:
            assert process.poll() is None, f"the wallet ended with exit code {process.returncode}"
            return ready_file.exists()

        until(is_ready, lambda: "the wallet did not become ready")
        yield WalletProcess(process, orjson.loads(ready_file.read_bytes()))
    finally:
        process.kill()
        process.wait(_STOP_SECONDS)
