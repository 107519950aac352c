"""Several reads in a row, written like a transaction but run on the connections that only read."""

from collections.abc import Callable

from bridge_server.storage.database import Database, Result, Statement, Transaction


async def read_through(database: Database, begin: Callable[[], Transaction[Result]]) -> Result:
    """Run the statements that `begin` yields, each on the state of its own moment; return its result.

    They must only read, and announce nothing.
    """
    steps = begin()
    try:
        step = next(steps)
        while True:
            assert isinstance(step, Statement)
            step = steps.send(await database.read(step.sql, step.parameters))
    except StopIteration as stop:
        result: Result = stop.value
        return result
