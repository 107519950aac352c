"""Tables of values in one test each: an item of pytest costs more than most rows do."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeAlias

import pytest

from tests.support.server import RunningServer

Test: TypeAlias = Callable[..., Any]
Ids: TypeAlias = Iterable[object] | Callable[[Any], object] | None


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], ids: Ids = None, *, empties: bool = False
) -> Callable[[Test], Test]:
    """Run a test with each row of a table, in order, and fail with all rows for which it fails.

    It takes the arguments of `pytest.mark.parametrize`. All rows share one set of fixtures, so a row leaves
    nothing behind that the next one notices. With `empties` the reset of test mode empties the server of the
    fixtures between two rows. A test whose only fixture is `tmp_path` has a folder of its own for each row.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [dict(zip(arguments, row if len(arguments) > 1 else (row,), strict=True)) for row in rows]
    labels = _labels(table, ids)

    def decorated(test: Test) -> Test:
        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in arguments]

        def with_fixtures(fixtures: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
            for number, (label, values) in enumerate(zip(labels, table, strict=True)):
                given = {**fixtures, **values}
                if fixtures.keys() == {"tmp_path"}:
                    given["tmp_path"] /= str(number)
                    given["tmp_path"].mkdir()
                yield label, given

        @wraps(test)
        def run(**fixtures: Any) -> None:
            errors: list[Exception] = []
            for label, given in with_fixtures(fixtures):
                with _noted(errors, label):
                    test(**given)
            _raise_any(errors, len(table))

        @wraps(test)
        async def run_async(**fixtures: Any) -> None:
            errors: list[Exception] = []
            for number, (label, given) in enumerate(with_fixtures(fixtures)):
                if empties and number:
                    await _emptied(fixtures.values())
                with _noted(errors, label):
                    await test(**given)
            _raise_any(errors, len(table))

        chosen: Test = run_async if inspect.iscoroutinefunction(test) else run
        chosen.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return chosen

    return decorated


def _labels(table: list[dict[str, Any]], ids: Ids) -> list[str]:
    if callable(ids):
        return ["-".join(str(ids(value)) for value in row.values()) for row in table]
    if ids is not None:
        return [str(each) for each in ids]
    return [repr(tuple(row.values()))[:200] for row in table]


async def _emptied(fixtures: Iterable[Any]) -> None:
    for fixture in fixtures:
        server = getattr(fixture, "server", fixture)
        if isinstance(server, RunningServer):
            await server.reset()


@contextmanager
def _noted(errors: list[Exception], label: str) -> Iterator[None]:
    """Add what the block raises to the errors, with the row's label."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        failed = error if isinstance(error, Exception) else AssertionError(str(error))
        failed.__traceback__ = error.__traceback__
        failed.add_note(f"row: {label}")
        errors.append(failed)


def _raise_any(errors: list[Exception], count: int) -> None:
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup(f"{len(errors)} of {count} rows fail", errors)
