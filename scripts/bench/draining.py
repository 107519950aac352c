"""Takes an answer as fast as it comes, in a process of its own: URL PATH HEADER KEPT_FILE|-.

Prints the seconds from the request to the end of the answer and the bytes that came; keeps them if wanted.
"""

import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from cores import on_last_core
from processes import MeasurementError
from raw_http import address, encode

_PIECE_BYTES = 2**20
_END = b"\r\n0\r\n\r\n"
_LIMIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Drained:
    """How long the answer took, and its size with the marks of its chunks."""

    seconds: float
    bytes: int


class Draining:
    """An answer that is being taken."""

    def __init__(self, url: str, path: str, header: str, kept: Path | None = None) -> None:
        command = [sys.executable, str(Path(__file__)), url, path, header, str(kept or "-")]
        self._process = subprocess.Popen(on_last_core(command), stdout=subprocess.PIPE, text=True)

    @property
    def is_over(self) -> bool:
        """Whether all of it has come."""
        return self._process.poll() is not None

    def result(self) -> Drained:
        """What came, once it is over."""
        try:
            output, _ = self._process.communicate(timeout=_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        if self._process.returncode:
            raise MeasurementError("the answer was not taken to its end")
        return Drained(**json.loads(output))


def read_chunks(file: Path) -> list[bytes]:
    """The chunks of a kept answer with chunked transfer coding."""
    rest = file.read_bytes()
    chunks: list[bytes] = []
    at = rest.index(b"\r\n\r\n") + 4
    while True:
        line_end = rest.index(b"\r\n", at)
        length = int(rest[at:line_end], 16)
        if not length:
            return chunks
        chunks.append(rest[line_end + 2 : line_end + 2 + length])
        at = line_end + 2 + length + 2


def _drain(url: str, path: str, header: str, kept: str) -> Drained:
    pieces: list[bytes] = []
    buffer, total, tail = bytearray(_PIECE_BYTES), 0, b""
    with socket.create_connection(address(url), timeout=_LIMIT_SECONDS) as connection:
        started = time.perf_counter()
        connection.sendall(encode(url, "GET", path, header=header))
        while not tail.endswith(_END):
            length = connection.recv_into(buffer)
            if not total and not buffer.startswith(b"HTTP/1.1 200"):
                raise MeasurementError(f"answered {bytes(buffer[:200])!r}")
            if not length:
                raise MeasurementError("the answer ended too early")
            total += length
            tail = (tail + buffer[max(0, length - len(_END)) : length])[-len(_END) :]
            if kept != "-":
                pieces.append(bytes(buffer[:length]))
        drained = Drained(time.perf_counter() - started, total)
    if kept != "-":
        Path(kept).write_bytes(b"".join(pieces))
    return drained


if __name__ == "__main__":
    drained = _drain(*sys.argv[1:])
    print(json.dumps({"seconds": drained.seconds, "bytes": drained.bytes}))
