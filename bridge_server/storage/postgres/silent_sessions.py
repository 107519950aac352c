"""Ends what a frozen process has left in the database: sessions with locks that others wait for.

A process that runs asks something on the connection of its ear each second. The session of one that was
frozen, or whose machine is gone, lives on without that, and so do its advisory locks and the transactions
that it has begun. The next process to look ends them.
"""

from typing import Any

import structlog

ENDED_AFTER_SECONDS = 8.0
"""How long the session of an ear may ask nothing, by the clock of the database."""

_SUFFIX = " ear"

# Only sessions of the own user can be seen and ended. Behind a pooler of transactions the server's session
# has the name of the process only while that is in a transaction.
_END = f"""
WITH sessions AS MATERIALIZED (
    SELECT pid, application_name AS name, state FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
        AND application_name LIKE 'bridge-server/%'
        AND state_change < clock_timestamp() - make_interval(secs => $1)
), silent AS (
    SELECT pid, name FROM sessions WHERE state = 'idle' AND name LIKE '%{_SUFFIX}'
)
SELECT name, pg_terminate_backend(pid) FROM silent UNION ALL
SELECT sessions.name, pg_terminate_backend(sessions.pid) FROM sessions
JOIN silent ON silent.name = sessions.name || '{_SUFFIX}'
WHERE sessions.state IN ('idle in transaction', 'idle in transaction (aborted)')
"""  # noqa: S608 - its own parts

log = structlog.get_logger()


def name_of_ear(name: str) -> str:
    """The name of a session that listens and has locks, of the process whose sessions have the other name."""
    return f"{name}{_SUFFIX}"


async def end_silent_sessions(wire: Any, after_seconds: float = ENDED_AFTER_SECONDS) -> bool:
    """Whether there was a session to end, for which `wire`, a connection of asyncpg, has asked the server."""
    ended = await wire.fetch(_END, after_seconds)
    for name, _ in ended:
        log.warning("silent_session_ended", session=name)
    return bool(ended)
