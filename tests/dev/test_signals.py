"""Ctrl-C, once and twice."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from bridge_server.cli.process import stop_at_signals
from tests.support.loop_time import PassTime


@pytest.fixture
async def handlers(monkeypatch: pytest.MonkeyPatch) -> dict[int, Callable[[], None]]:
    """What the loop would do at each signal."""
    found: dict[int, Callable[[], None]] = {}
    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", found.__setitem__)
    return found


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done at once."""
    done: list[str] = []
    monkeypatch.setattr(os, "_exit", lambda code: done.append(f"exit {code}"))
    return done


async def test_a_second_ctrl_c_removes_what_is_not_kept_and_exits(
    handlers: dict[int, Callable[[], None]], done: list[str], pass_time: PassTime
) -> None:
    stop = asyncio.Event()
    stop_at_signals(stop, lambda: done.append("removed"))

    handlers[signal.SIGINT]()
    handlers[signal.SIGINT]()  # the same key, passed on by the program that runs this one
    assert stop.is_set()
    assert done == []
    await pass_time(1.0)
    handlers[signal.SIGINT]()

    assert done == ["removed", "exit 130"]


async def test_a_server_finishes_whatever_comes(
    handlers: dict[int, Callable[[], None]], done: list[str], pass_time: PassTime
) -> None:
    stop = asyncio.Event()
    stop_at_signals(stop, None)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
        handlers[number]()
        await pass_time(1.0)

    assert stop.is_set()
    assert done == []
