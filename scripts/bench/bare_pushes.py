"""The least that pushing can cost: a bare aiohttp client that posts the bodies one line each.

URL AT_ONCE BODIES_FILE HEADERS_FILE; prints what one post cost by the process's own clock.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiohttp
from cores import keep_on_first_core
from event_loop import new_event_loop
from processes import MeasurementError

_LIMIT_SECONDS = 120


def post_all(
    folder: Path, url: str, at_once: int, bodies: Sequence[bytes], headers: Mapping[str, str]
) -> float:
    """Post them from a process of its own; returns the microseconds of CPU time for each."""
    bodies_file, headers_file = folder / "bench-bodies.txt", folder / "bench-headers.json"
    bodies_file.write_bytes(b"\n".join(bodies))
    headers_file.write_text(json.dumps(dict(headers)))
    command = [sys.executable, __file__, url, str(at_once), str(bodies_file), str(headers_file)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False)
    if finished.returncode:
        raise MeasurementError(f"the bare client failed: {finished.stderr[-1000:]}")
    return float(json.loads(finished.stdout)["cpu_us"])


async def _post_all(url: str, at_once: int, bodies: Sequence[bytes], headers: Mapping[str, str]) -> None:
    left = iter(bodies)

    async def post_in_turn(session: aiohttp.ClientSession) -> None:
        for body in left:
            async with session.post(url, data=body, headers=headers) as response:
                await response.read()
                response.raise_for_status()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(post_in_turn(session) for _ in range(at_once)))


def main() -> None:
    url, at_once, bodies_file, headers_file = sys.argv[1:]
    bodies = Path(bodies_file).read_bytes().split(b"\n")
    headers = json.loads(Path(headers_file).read_bytes())
    keep_on_first_core(0)
    started = time.process_time_ns()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_post_all(url, int(at_once), bodies, headers))
    print(json.dumps({"cpu_us": (time.process_time_ns() - started) / 1e3 / len(bodies)}))


if __name__ == "__main__":
    main()
