"""Fixtures that every room's tests use."""

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from bridge_server.outbox import dispatcher
from bridge_server.wallet.transactions import worker
from tests.support.server import RunningServer, running_server


@pytest.fixture(autouse=True, scope="session")
def short_ticks() -> Iterator[None]:
    """The outbox and the wallet look at the clock often: tests move it and wait for what comes of that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatcher, "_TICK_SECONDS", 0.02)
        patch.setattr(worker, "_TICK_SECONDS", 0.02)
        yield


@pytest.fixture(autouse=True, scope="session")
def bytecode_is_kept() -> Iterator[None]:
    """A process that a test starts finds compiled modules, as an installed program does, or leaves them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def loggers_that_can_be_captured() -> Iterator[None]:
    """A command that a test runs configures the log. What it keeps must not escape a later test's capture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structlog, "configure", partial(_configure_without_cache, structlog.configure))
        yield


def _configure_without_cache(configure: Callable[..., None], **options: Any) -> None:
    configure(**{**options, "cache_logger_on_first_use": False})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with default settings, and a clock that stands still."""
    async with running_server(tmp_path / "data") as running:
        yield running
