"""The turns of a batch of transactions as advisory locks, which end with its commit.

All processes take them in one ascending order, whatever the mode, so that no two wait for each other.
"""

from collections.abc import Iterable
from hashlib import blake2b

from bridge_server.storage.database import Turn, Turns

_LOCKS = (
    "BEGIN; SELECT count(CASE WHEN s THEN pg_advisory_xact_lock_shared(k)::text "
    "ELSE pg_advisory_xact_lock(k)::text END) "
    "FROM unnest(ARRAY[{keys}]::bigint[], ARRAY[{modes}]::boolean[]) AS turn (k, s)"
)


def lock_key(turn: Turn) -> int:
    """The number of the turn's advisory lock."""
    text = f"{turn.kind}\0{turn.id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), signed=True)


def beginning(jobs: Iterable[Turns]) -> str:
    """The script that begins a transaction and takes all turns; a turn in both modes exclusively."""
    modes: dict[int, bool] = {}
    for turns in jobs:
        for turn in turns.exclusive:
            modes[lock_key(turn)] = False
        for turn in turns.shared:
            modes.setdefault(lock_key(turn), True)
    if not modes:
        return "BEGIN"
    keys = sorted(modes)
    return _LOCKS.format(
        keys=",".join(map(str, keys)),
        modes=",".join("true" if modes[key] else "false" for key in keys),
    )
