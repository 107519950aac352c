"""Programs of Debian's packages that a test starts on free ports of this machine; a dapp and a wallet."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest

from bridge_server.kit.client import Dapp, Wallet

_STOP_SECONDS = 60.0
_PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""nginx is not on the path of every user."""


def path_of(program: str) -> str | None:
    """Where the program is; None if it is not installed."""
    return shutil.which(program) or shutil.which(program, path=_PLACES)


def needs(program: str) -> pytest.MarkDecorator:
    """The mark of tests that are skipped without the program."""
    reason = f"needs {program}: scripts/system-packages"
    return pytest.mark.skipif(path_of(program) is None, reason=reason)


@contextmanager
def running(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program until the end of the block; what it writes is in the log."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_SECONDS)


# A dapp and a wallet over a server that was installed somehow.


_ACCOUNT = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
_PAIRING_SECONDS = 240


async def pair_over(url: str) -> str:
    """Pair, call and answer; returns what the dapp is answered."""
    async with (
        asyncio.timeout(_PAIRING_SECONDS),
        Dapp(url, name="Example Dapp") as dapp,
        Wallet.from_uri(dapp.uri) as wallet,
    ):
        await wallet.approve([_ACCOUNT])
        await dapp.approval()
        asked = asyncio.create_task(dapp.call("personal_sign", ["0x68656c6c6f", _ACCOUNT]))
        async with aclosing(wallet.calls()) as calls:
            await wallet.answer(await anext(calls), "0x5f1c")
        return str(await asked)


ANSWERED = "0x5f1c"
