"""Fixtures that every room's tests use."""

import gc
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from pytest_aiohttp.plugin import AiohttpServer

from tests.support.server import RunningServer, running_server
from tests.support.webhook_receiver import WebhookReceiver

# No test depends on how fast the machine is.
settings.register_profile("any-speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-speed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep thousands of test items, which live to the end, out of the garbage collector's sight.

    It would walk through them hundreds of times, a quarter of the run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


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
async def receiver(aiohttp_server: AiohttpServer) -> AsyncIterator[WebhookReceiver]:
    """A receiver of webhooks on this machine."""
    receiver = WebhookReceiver()
    server = await aiohttp_server(receiver.application(), shutdown_timeout=1)
    assert server.port is not None
    receiver.port = server.port
    yield receiver
    receiver.released.set()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with default settings, and a clock that stands still."""
    async with running_server(tmp_path / "data") as running:
        yield running
