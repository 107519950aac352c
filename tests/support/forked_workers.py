"""`pytest --workers N --shuffle SEED`: tests are collected once, and forked processes run a module at a time.
The workers of xdist would each import and collect every test, which is as much work as a tenth of the suite.

White-box: pytest makes one folder for all workers only by a private name.
"""

import os
import signal
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from _pytest.config import create_terminal_writer
from _pytest.reports import TestReport

from tests.support.programs import WORKER, WORKER_COUNT


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workers", type=int, default=0, metavar="N", help="run the tests in N forked processes"
    )
    parser.addoption("--shuffle", metavar="SEED", help="run the modules in the random order of this seed")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the order of the modules, so that it can be repeated."""
    seed = config.getoption("--shuffle")
    return None if seed is None else f"modules in random order: --shuffle={seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (seed := config.getoption("--shuffle")) is not None:
        items[:] = shuffled(items, seed)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run what was collected in forked processes, if there shall be any."""
    count = session.config.getoption("--workers")
    if count < 1 or session.config.option.collectonly or session.testsfailed:
        return None
    terminal: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    terminal.showfspath = False  # modules run side by side
    _Run(session).run(count)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


@dataclass
class _Worker:
    """A forked process, the test that it has begun, and the modules that it was sent."""

    number: int
    pid: int
    test: str = ""
    modules: list[list[int]] = field(default_factory=list)
    error: str = ""


class _Run:
    """The parent's side: it hands out modules, and reports what became of their tests."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._hook = session.config.hook
        by_module = groupby(range(len(session.items)), lambda index: session.items[index].path)
        self._modules = deque(list(tests) for _, tests in by_module)
        self._workers: dict[Connection, _Worker] = {}

    def run(self, count: int) -> None:
        self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # workers end with the run
        try:
            for number in range(count):
                self._start(number)
            while self._workers:
                for connection in wait(list(self._workers)):
                    self._take_message(cast("Connection", connection))
        finally:
            for worker in self._workers.values():  # the run was interrupted
                os.kill(worker.pid, signal.SIGTERM)
                os.waitpid(worker.pid, 0)

    def _start(self, number: int) -> None:
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for connection in (ours, *self._workers):
                connection.close()
            os.environ[WORKER] = f"gw{number}"
            os.environ[WORKER_COUNT] = str(self._session.config.getoption("--workers"))
            _work(self._session, theirs)
        theirs.close()
        self._workers[ours] = _Worker(number, pid)
        for _ in range(2):  # a module's last test must know the next one, whose fixtures it may share
            self._send_module(ours)

    def _send_module(self, connection: Connection) -> None:
        module = None if self._is_over() or not self._modules else self._modules.popleft()
        if module is not None:
            self._workers[connection].modules.append(module)
        with suppress(ConnectionError):  # it has died, which is noticed later
            connection.send(module)

    def _is_over(self) -> bool:
        return bool(self._session.shouldfail or self._session.shouldstop)

    def _take_message(self, connection: Connection) -> None:
        worker = self._workers[connection]
        try:
            kind, content = connection.recv()
        except (EOFError, ConnectionError):
            self._note_end(connection)
            return
        if kind == "module":
            worker.modules.pop(0)
            self._send_module(connection)
        elif kind in ("logstart", "logfinish"):
            worker.test = content["nodeid"] if kind == "logstart" else ""
            getattr(self._hook, f"pytest_runtest_{kind}")(**content)
        elif kind == "error":
            worker.error = content
        elif kind == "warning":
            self._hook.pytest_warning_recorded.call_historic(kwargs=content)
        else:
            report = self._hook.pytest_report_from_serializable(config=self._session.config, data=content)
            self._hook.pytest_runtest_logreport(report=report)

    def _note_end(self, connection: Connection) -> None:
        """Fail the test at which a worker has died, and have another run the module that it had not begun."""
        connection.close()
        worker = self._workers.pop(connection)
        _, status = os.waitpid(worker.pid, 0)
        if status == 0:
            return
        name = worker.test or f"worker {worker.number}"
        ended = f"the worker ended with {os.waitstatus_to_exitcode(status)}\n{worker.error}".rstrip()
        location = (name.partition("::")[0], None, name)
        self._hook.pytest_runtest_logreport(report=TestReport(name, location, {}, "failed", ended, "call"))
        if worker.test and not self._is_over():
            self._modules.extendleft(worker.modules[1:])
            self._start(worker.number)


def _work(session: pytest.Session, connection: Connection) -> NoReturn:
    """Run modules in a forked process until there are none left: None comes in a module's place."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        plugins = session.config.pluginmanager
        plugins.unregister(plugins.get_plugin("terminalreporter"))
        # What pytest-timeout writes of a test that takes too long, its failure shows.
        terminal = SimpleNamespace(_tw=create_terminal_writer(session.config))
        plugins.register(terminal, "terminalreporter")
        capture: Any = plugins.get_plugin("capturemanager")
        capture.stop_global_capturing()  # its file is the parent's
        capture.start_global_capturing()
        plugins.register(_Reporting(session.config, connection))
        _run_modules(session, connection)
        code = 0
    except EOFError:
        pass  # the parent has ended
    except BaseException:
        connection.send(("error", traceback.format_exc()))
    finally:
        os._exit(code)


def _run_modules(session: pytest.Session, connection: Connection) -> None:
    tests: Sequence[int] | None = connection.recv()
    while tests is not None:
        following: Sequence[int] | None = connection.recv()
        items = [session.items[index] for index in tests]
        next_items = [*items[1:], None if following is None else session.items[following[0]]]
        for item, next_item in zip(items, next_items, strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        if following is not None:
            connection.send(("module", None))  # one is done
        tests = following


@dataclass(eq=False)
class _Reporting:
    """A worker's plugin: it sends what happens to the parent."""

    _config: pytest.Config
    _connection: Connection
    _has_begun: bool = False

    def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
        self._has_begun = True
        self._connection.send(("logstart", {"nodeid": nodeid, "location": location}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        self._connection.send(("logfinish", {"nodeid": nodeid, "location": location}))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: object
    ) -> None:
        if when != "runtest" or not self._has_begun:
            return  # the parent has had it; pytest repeats it to each plugin that comes later
        warning_message.source = None  # only this process has it
        content = {"warning_message": warning_message, "when": when, "nodeid": nodeid, "location": location}
        self._connection.send(("warning", content))


def shuffled(tests: Sequence[pytest.Item], seed: str) -> list[pytest.Item]:
    """The tests, with their modules in the order that the seed gives; inside a module they keep theirs.

    Modules that only `--all` runs take minutes. They begin in the first third: none is left alone at the end.
    """
    by_module: dict[Path, list[pytest.Item]] = {}
    for test in tests:
        by_module.setdefault(test.path, []).append(test)
    modules = sorted(by_module)
    marks = ((test.path, mark) for test in tests for mark in test.iter_markers("skipif"))
    long = {module for module, mark in marks if "--all" in mark.kwargs.get("reason", "")}
    random = Random(seed)
    random.shuffle(modules)
    third = len(modules) // 3
    short_and_early = [place for place in range(third) if modules[place] not in long]
    random.shuffle(short_and_early)
    for place in range(third, len(modules)):
        if modules[place] in long and short_and_early:
            other = short_and_early.pop()
            modules[place], modules[other] = modules[other], modules[place]
    return [test for module in modules for test in by_module[module]]
