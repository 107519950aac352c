"""The output of a program that an example of the documentation runs."""

import asyncio
import os
from asyncio.subprocess import PIPE
from pathlib import Path

_SECONDS = 240


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
