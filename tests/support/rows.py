"""Tables of values in one test each: an item of pytest costs more than most rows do."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.support.server import RunningServer

Test: TypeAlias = Callable[..., Any]
Row: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a row in messages, and its values by the test's argument."""


def each_row(
    names: str | Sequence[str],
    rows: Iterable[Any],
    ids: Iterable[object] | Callable[[Any], object] | None = None,
    *,
    empties: bool = False,
) -> Callable[[Test], Test]:
    """Run a test with each row of a table, in order, and fail with all rows for which it fails.

    It takes the arguments of `pytest.mark.parametrize`. All rows share one set of fixtures, so a row leaves
    nothing behind that the next one notices. With `empties` the reset of test mode empties the server of the
    fixtures between two rows. A test whose only fixture is `tmp_path` has a folder of its own for each row.
    """
    table = list(_named_rows(names, rows, ids))

    def decorated(test: Test) -> Test:
        signature = inspect.signature(test)
        taken = {name for _, values in table for name in values}
        left = [each for name, each in signature.parameters.items() if name not in taken]

        @wraps(test)
        def run(*arguments: Any, **fixtures: Any) -> None:
            failures = _Failures()
            for number, (name, values) in enumerate(table):
                with failures.of(name):
                    test(*arguments, **_of_row(fixtures, number), **values)
            failures.raise_any(len(table))

        @wraps(test)
        async def run_async(*arguments: Any, **fixtures: Any) -> None:
            failures = _Failures()
            for number, (name, values) in enumerate(table):
                if empties and number:
                    await _emptied(fixtures.values())
                with failures.of(name):
                    awaitable: Awaitable[None] = test(*arguments, **_of_row(fixtures, number), **values)
                    await awaitable
            failures.raise_any(len(table))

        chosen: Test = run_async if inspect.iscoroutinefunction(test) else run
        chosen.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return chosen

    return decorated


def _of_row(fixtures: dict[str, Any], number: int) -> dict[str, Any]:
    if fixtures.keys() != {"tmp_path"}:
        return fixtures
    folder: Path = fixtures["tmp_path"] / str(number)
    folder.mkdir()
    return {"tmp_path": folder}


async def _emptied(fixtures: Iterable[Any]) -> None:
    for fixture in fixtures:
        server = getattr(fixture, "server", fixture)
        if isinstance(server, RunningServer):
            await server.reset()


def _named_rows(
    names: str | Sequence[str], rows: Iterable[Any], ids: Iterable[object] | Callable[[Any], object] | None
) -> Iterator[Row]:
    names_of_rows = [] if ids is None or callable(ids) else list(ids)
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    for number, row in enumerate(rows):
        values = (row,) if len(arguments) == 1 else row
        if callable(ids):
            name = "-".join(str(ids(value)) for value in values)
        else:
            name = repr(values) if ids is None else str(names_of_rows[number])
        yield name[:200], dict(zip(arguments, values, strict=True))


class _Failures:
    """The rows of a run that have failed."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            failed = error if isinstance(error, Exception) else AssertionError(str(error))
            failed.__traceback__ = error.__traceback__
            failed.add_note(f"row: {name}")
            self._errors.append(failed)

    def raise_any(self, count: int) -> None:
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise ExceptionGroup(f"{len(self._errors)} of {count} rows fail", self._errors)
