"""The headless wallet as its users meet it: a command in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bridge_server.kit.testing.server import environment_without_settings
from tests.support.eventually import until
from tests.support.forked_process import fork_server

COMMAND = (sys.executable, "-m", "bridge_server", "wallet")
_STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class WalletProcess:
    """A wallet in a process of its own, with its control API."""

    process: subprocess.Popen[bytes]
    facts: dict[str, Any]
    out_file: Path

    @property
    def headers(self) -> dict[str, str]:
        """The token of the control API."""
        return {"Authorization": f"Bearer {self.facts['token']}"}

    def lines(self) -> list[str]:
        """What it has printed, without the times."""
        return [line[10:] for line in self.out_file.read_text("utf-8").splitlines()]

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
    ready_file, out_file = folder / "wallet.json", folder / "wallet.out"
    listening = ("--listen", "127.0.0.1:0", "--ready-file", str(ready_file))
    with out_file.open("wb") as out, (folder / "wallet.err").open("wb") as err:
        words = ["wallet", *listening, *map(str, arguments)]
        process = fork_server().start(words, environment_without_settings(), err, out)
    try:

        def is_ready() -> bool:
            assert process.poll() is None, f"the wallet ended with exit code {process.returncode}"
            return ready_file.exists()

        until(is_ready, lambda: "the wallet did not become ready")
        yield WalletProcess(process, orjson.loads(ready_file.read_bytes()), out_file)
    finally:
        process.kill()
        process.wait(_STOP_SECONDS)
