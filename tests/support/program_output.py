"""The output of programs that examples of the documentation run."""

import asyncio
import os
from asyncio.subprocess import PIPE
from pathlib import Path
from tempfile import TemporaryFile

from tests.support.forked_process import fork_server

_SECONDS = 240


def output_of_program(program: str) -> str:
    """What a program in Python, which must succeed, prints in a forked process, as that of `python -c`."""
    with TemporaryFile() as out, TemporaryFile() as err:
        process = fork_server().start((), os.environ, err, out, program=program)
        try:
            exit_code = process.wait(_SECONDS)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        assert exit_code == 0, err.read().decode()
        return out.read().decode()


async def output_of(*command: str, folder: Path, **variables: str) -> str:
    """What the command prints in the folder; it must succeed. The variables are added to the environment."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env={**os.environ, **variables}, stdout=PIPE
    )
    try:
        async with asyncio.timeout(_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    return output.decode()
