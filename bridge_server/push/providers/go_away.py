"""A filter that removes GOAWAY frames (RFC 9113, 6.8) from received data before h2 reads it.

A GOAWAY says which requests the server will still answer. h2 treats it as the end of the connection and
refuses every later frame, so the remaining answers would be lost.
"""

from dataclasses import dataclass

from h2.exceptions import ProtocolError

_HEADER_BYTES = 9  # length (3), type (1), flags (1), stream (4)
_TYPE = 7
_LEAST_BYTES = 8  # last stream (4), error code (4), then optional debug data
_MOST_BYTES = 16_384  # the default of SETTINGS_MAX_FRAME_SIZE; h2 refuses larger frames


@dataclass(frozen=True, slots=True)
class GoAway:
    """The content of a GOAWAY: requests on streams after `last_stream_id` get no answer."""

    last_stream_id: int
    error_code: int


class GoAwayFilter:
    """Splits received data into frames and extracts every GOAWAY."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes | GoAway]:
        """The complete frames in order: GOAWAY parsed, other frames as bytes. Raises ProtocolError."""
        self._buffer += data
        parts: list[bytes | GoAway] = []
        start = position = 0
        while len(self._buffer) - position >= _HEADER_BYTES:
            length = int.from_bytes(self._buffer[position : position + 3])
            if length > _MOST_BYTES:
                position = len(self._buffer)
                break
            end = position + _HEADER_BYTES + length
            if end > len(self._buffer):
                break
            if self._buffer[position + 3] == _TYPE:
                if position > start:
                    parts.append(bytes(self._buffer[start:position]))
                parts.append(_go_away(bytes(self._buffer[position + _HEADER_BYTES : end])))
                start = end
            position = end
        if position > start:
            parts.append(bytes(self._buffer[start:position]))
        del self._buffer[:position]
        return parts


def _go_away(content: bytes) -> GoAway:
    if len(content) < _LEAST_BYTES:
        raise ProtocolError("a GOAWAY frame is too short")
    return GoAway(int.from_bytes(content[:4]) & 0x7FFF_FFFF, int.from_bytes(content[4:8]))
