"""The position of a reader in the changes of several processes, each of which counts its own."""

import re
from collections.abc import Mapping

from bridge_server.admin.merged_pages import read_pairs, write_pairs
from bridge_server.kernel.errors import InvalidInputError

_PLAIN = re.compile(r"[0-9]{1,15}", re.ASCII)


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


def write_positions(positions: Mapping[int, int]) -> str:
    """The text that `read_positions` reads."""
    return write_pairs(positions) or "0"
