"""The position of a reader in the changes of several processes, each of which counts its own."""

import re
from collections.abc import Mapping

from bridge_server.kernel.errors import InvalidInputError

_PLAIN = re.compile(r"[0-9]{1,15}", re.ASCII)
_OF_SEVERAL = re.compile(r"[0-9]{1,15}:[0-9]{1,15}(?:,[0-9]{1,15}:[0-9]{1,15}){0,127}", re.ASCII)


def read_positions(text: str, own_number: int) -> dict[int, int] | None:
    """The last known change of each process; None for nothing. Raises InvalidInputError.

    A plain number is a change of the process that answers. Of a process that is not named nothing is known.
    """
    if not text:
        return None
    if _PLAIN.fullmatch(text):
        return {own_number: int(text)} if int(text) else {}
    positions = read_pairs(text)
    if positions is None:
        raise InvalidInputError(
            f"{text[:40]!r} is no change: take it from `last`, or from the id of an event."
        )
    return positions


def read_position(text: str, number: int) -> int | None:
    """The last known change of one process; None for nothing. Raises InvalidInputError."""
    positions = read_positions(text, number)
    return None if positions is None else positions.get(number, 0)


def read_pairs(text: str) -> dict[int, int] | None:
    """The numbers of processes, each with another number, in a text such as `1:12,2:7`; None in any other."""
    if not _OF_SEVERAL.fullmatch(text):
        return None
    pairs = [part.split(":") for part in text.split(",")]
    return {int(process): int(number) for process, number in pairs}


def write_positions(positions: Mapping[int, int]) -> str:
    """The text that `read_positions` reads."""
    return ",".join(f"{process}:{change}" for process, change in sorted(positions.items())) or "0"
