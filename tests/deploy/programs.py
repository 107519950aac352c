"""Programs of Debian's packages that a test starts on free ports of this machine; a dapp and a wallet."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest

from bridge_server.kit.client import Dapp, Wallet

_STOP_SECONDS = 60.0


def path_of(program: str) -> str | None:
    """Where the program is; None if it is not installed. nginx is not on the path of every user."""
    places = f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin"
    return shutil.which(program, path=places)


def needs(program: str) -> pytest.MarkDecorator:
    """The mark of tests that are skipped without the program."""
    return pytest.mark.skipif(path_of(program) is None, reason=f"needs {program}: scripts/system-packages")


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


_ACCOUNT = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
ANSWERED = "0x5f1c"


async def pair_over(url: str) -> str:
    """Pair over a server that was installed somehow, call and answer; returns what the dapp is answered."""
    async with (
        asyncio.timeout(240),
        Dapp(url, name="Example Dapp") as dapp,
        Wallet.from_uri(dapp.uri) as wallet,
    ):
        await wallet.approve([_ACCOUNT])
        await dapp.approval()
        asked = asyncio.create_task(dapp.call("personal_sign", ["0x68656c6c6f", _ACCOUNT]))
        async with aclosing(wallet.calls()) as calls:
            await wallet.answer(await anext(calls), ANSWERED)
        return str(await asked)
