"""A database file that is deleted, or replaced, under the running server: nothing more is answered 200."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.asking import Answer, ask
from tests.support.server import RunningServer

pytestmark = pytest.mark.own_server


def delete(file: Path) -> None:
    file.unlink()


def delete_the_log(file: Path) -> None:
    file.with_name(f"{file.name}-wal").unlink()


def delete_the_directory(file: Path) -> None:
    shutil.rmtree(file.parent)


def replace(file: Path) -> None:
    copy = file.with_name("copy")
    shutil.copy(file, copy)
    copy.rename(file)


async def write(server: RunningServer) -> Answer:
    return await ask(server, "POST", "/session/new")


@pytest.mark.parametrize("spoil", [delete, delete_the_log, delete_the_directory, replace])
async def test_writes_and_readiness_are_503_from_then_on(
    server: RunningServer, spoil: Callable[[Path], None]
) -> None:
    session_id = await server.open_session()

    spoil(server.settings.database_file)

    for _ in range(2):
        refused = await write(server)
        assert "deleted or replaced" in refused.problem(503)["detail"]
        assert int(refused.headers["Retry-After"]) >= 1
        (await ask(server, "GET", "/readyz")).problem(503)
    assert (await ask(server, "GET", "/livez")).status == 200
    assert (await ask(server, "GET", f"/session/{session_id}")).status == 204


async def test_readiness_is_lost_without_a_write(server: RunningServer) -> None:
    delete(server.settings.database_file)

    (await ask(server, "GET", "/readyz")).problem(503)


async def test_a_file_that_is_put_back_is_written_again(server: RunningServer) -> None:
    file = server.settings.database_file
    aside = file.with_name("aside")
    file.rename(aside)
    (await write(server)).problem(503)

    aside.rename(file)

    assert (await write(server)).status == 200
    assert (await ask(server, "GET", "/readyz")).status == 200
