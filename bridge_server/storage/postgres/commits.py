"""The count of a lane's commits in its row of `processes`, which changes with each commit.

It tells other processes what they have not heard of. And it tells this one how a commit ended whose answer
was lost: the count never goes back, so that a commit that was given up can never succeed afterwards.
"""

from typing import Any

from bridge_server.version import VERSION

_NOW_MS = "(extract(epoch from clock_timestamp()) * 1000)::bigint"

# A count that is not above the one in the row is NULL, which the column refuses: the commit fails.
_COUNT = """
INSERT INTO processes (number, lane, written, seen_at_ms, version)
VALUES ({number}, {lane}, {written}, {now}, '{version}')
ON CONFLICT (number, lane) DO UPDATE
SET written = CASE WHEN processes.written < excluded.written THEN excluded.written END;
COMMIT
"""

_GIVE_UP = f"""
INSERT INTO processes (number, lane, written, seen_at_ms, version) VALUES ($1, $2, $3, {_NOW_MS}, $4)
ON CONFLICT (number, lane) DO UPDATE SET written = excluded.written
WHERE processes.written < excluded.written RETURNING written
"""  # noqa: S608 - the time's expression

_REGISTER = f"""
INSERT INTO processes (number, lane, seen_at_ms, version, started_at_ms)
SELECT own.number, lane, {_NOW_MS}, $2, {_NOW_MS}
FROM (SELECT nextval('process_numbers') AS number) AS own, unnest($1::int[]) AS lane RETURNING number
"""  # noqa: S608 - the time's expression

_STOPPED = f"UPDATE processes SET seen_at_ms = -{_NOW_MS} WHERE number = $1"  # noqa: S608 - the time's expression


async def register(wire: Any, lanes: list[int]) -> int:
    """Make the rows of this process; returns its number."""
    number: int = await wire.fetchval(_REGISTER, lanes, VERSION)
    return number


async def unregister(wire: Any, number: int) -> None:
    """Leave the rows, which prove the last commits, to be removed later."""
    await wire.execute(_STOPPED, number)


class LaneCount:
    """The count of one lane of this process."""

    def __init__(self, number: int, lane: int) -> None:
        self._number = number
        self._lane = lane
        self.written = 0

    def commit_script(self, written: int) -> str:
        """The script that counts the commit as this number and ends the transaction."""
        version = VERSION.replace("'", "''")
        return _COUNT.format(
            number=self._number, lane=self._lane, written=written, now=_NOW_MS, version=version
        )

    async def give_up(self, wire: Any, written: int) -> bool:
        """Make the commit of this number impossible; False when it has succeeded already.

        It waits for a commit that is under way.
        """
        row = await wire.fetchrow(_GIVE_UP, self._number, self._lane, written, VERSION)
        return row is not None
