"""The plugin in a run of pytest: what it imports, reports and leaves behind; the suite of docs/test.md."""

import asyncio
import os
import re
import signal
import tempfile
from pathlib import Path

import pytest

from bridge_server.kit.fixtures.run import Run
from tests.support.needs import slow
from tests.support.programs import fork_server
from tests.support.server import server_process
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("forked_processes")


def test_idle_runs_import_nothing(project_folder: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "yes")
    project_folder.makeini("[pytest]")
    project_folder.makepyfile(
        """
        import sys

        def test_it():
            loaded = {name for name in sys.modules if name.partition(".")[0] == "bridge_server"}
            assert loaded == {"bridge_server", "bridge_server.kit", "bridge_server.kit.pytest_plugin"}
            assert not {"aiohttp", "pydantic", "orjson", "structlog", "coincurve"} & set(sys.modules)
        """
    )

    run = project_folder.runpytest_subprocess("-p", "bridge_server.kit.pytest_plugin")
    run.assert_outcomes(passed=1)


def test_a_mistake_of_a_test_is_shown_with_its_line_and_one_sentence(project_folder: pytest.Pytester) -> None:
    project_folder.makepyfile(
        """
        import pytest

        def test_it(bridge, bridge_project):
            inbox = bridge_project.inbox(0)
            inbox.next()

        def test_other(bridge):
            bridge.faults.request(503, route="nothing-like-it")

        @pytest.mark.bridge(sesion_ttl=5)
        def test_name(bridge): pass

        @pytest.mark.bridge(session_ttl='soon')
        def test_value(bridge): pass

        @pytest.mark.bridge('queue')
        def test_position(bridge): pass
        """
    )

    result = project_folder.runpytest_inprocess("-p", "no:logging", "--show-capture=no")
    result.assert_outcomes(failed=2, errors=3)
    text = result.stdout.str()
    for shown in (
        "NothingReceivedError: eip155:1:0xf39F",
        "is not subscribed to the project",
        ">       inbox.next()",
        '>       bridge.faults.request(503, route="nothing-like-it")',
        "bridge: there is no setting sesion_ttl; did you mean session_ttl?",
        "bridge: session_ttl: Input should be a valid integer",
        "bridge takes values by name: bridge(session_ttl=60)",
    ):
        assert shown in text
    for frame in ("background_loop.py", "project.py", "aiohttp", "concurrent", "kit/testing/server.py"):
        assert f"{frame}:" not in text
    assert "The above exception" not in text

    result = project_folder.runpytest_inprocess("-p", "no:trio", "-o", "bridge_scope=module")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*bridge_scope is function or session, not 'module'*"])


def test_a_failed_run_reports_traffic_and_log_and_leaves_nothing_behind(
    project_folder: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(project_folder.path))
    project_folder.makepyfile(
        """
        import structlog
        from urllib.request import urlopen

        def test_passed(bridge, bridge_session):
            assert bridge.dapp("Example").uri

        def test_failed(bridge, bridge_project):
            structlog.get_logger().info("the test's own words")
            inbox = bridge_project.inbox(0)
            inbox.subscribe()
            inbox.add_device("fcm", "a-token")
            bridge.faults.fcm("UNAVAILABLE", times=1)
            bridge_project.notify(0)
            bridge.clock.advance(seconds=60)
            for number in range(60):
                urlopen(f"{bridge.url}/hello?{number}").close()
            for _ in range(3):
                bridge.dapp("Example")
            assert 0

        def test_killed(bridge_process):
            bridge_process.kill()
            assert 0
        """
    )

    result = project_folder.runpytest_inprocess("-p", "no:trio", "-rA")

    result.assert_outcomes(passed=1, failed=2)
    lines = result.outlines
    assert sum("GET    /hello?" in line for line in lines) == 49
    assert [line.endswith("(3 times)") for line in lines if "POST   /session/new  200" in line] == [True]
    assert sum("webhook_failed" in line and "FCM answered 503" in line for line in lines) == 1
    result.stdout.fnmatch_lines(["*Captured stdout*", "*the test's own words*", "*traffic of http*"])
    result.stdout.fnmatch_lines(["*the server does not answer*", "*log of http*", "*server_started*"])
    result.stdout.no_fnmatch_line("*/_test/*")
    assert list(project_folder.path.glob("bridge-server-tests-*")) == []


def test_leftovers_of_killed_runs_go_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = "import os; from bridge_server.kit.fixtures.run import Run; run = Run(); os.kill(os.getpid(), 9)"
    fork_server().start((), {"TMPDIR": str(tmp_path)}, program=script).wait()
    (left,) = tmp_path.iterdir()

    run = Run()

    assert not left.exists()
    run.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "options"), [("bridge_session", ()), ("bridge", ("-o", "bridge_scope=session"))]
)
def test_a_bridge_of_the_run_is_emptied_for_each_test(
    project_folder: pytest.Pytester, name: str, options: tuple[str, ...]
) -> None:
    project_folder.makepyfile(
        f"""
        import pytest

        urls = set()

        @pytest.mark.parametrize("number", range(3))
        def test_it({name}, number):
            urls.add({name}.url)
            assert [each for each in {name}.traffic() if each.who != "test"] == []
            assert {name}.dapp("Example").uri

        @pytest.mark.bridge(session_ttl=500)
        def test_other_settings({name}):
            assert {name}.url not in urls

        def test_last():
            assert len(urls) == 1
        """
    )

    project_folder.runpytest_inprocess("-p", "no:trio", *options).assert_outcomes(passed=5)


def test_async_tests_have_dapps_and_trio_can_cancel_what_waits(project_folder: pytest.Pytester) -> None:
    project_folder.makepyfile(
        """
        import pytest, trio
        from bridge_server.kit.client import AnswerTimeoutError, SessionEndedError

        async def use(bridge):
            async with bridge.adapp("Example") as dapp:
                assert await dapp.request("personal_sign", ["0x68", "0x0"])
                with pytest.raises(AnswerTimeoutError):
                    await dapp.approval(timeout=0.05)
                bridge.clock.advance(hours=25)
                with pytest.raises(SessionEndedError):
                    await dapp.request("personal_sign", ["0x68", "0x0"])

        @pytest.mark.asyncio
        async def test_asyncio(bridge):
            await use(bridge)

        @pytest.mark.trio
        async def test_trio(bridge):
            await use(bridge)

        @pytest.mark.trio
        async def test_cancelling(bridge):
            async with bridge.adapp("Example") as dapp:
                with trio.move_on_after(0.05) as scope:
                    await dapp.approval(timeout=60)
                assert scope.cancelled_caught
                assert await dapp.request("personal_sign", ["0x68", "0x0"])
        """
    )

    project_folder.runpytest_inprocess().assert_outcomes(passed=3)


@slow  # three interpreters
def test_it_works_under_xdist(project_folder: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "yes")  # three interpreters load what they need
    project_folder.makeini("[pytest]")
    project_folder.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_it(bridge, bridge_session, number):
            assert bridge.dapp("Example").uri and bridge_session.dapp("Example").uri
        """
    )

    plugins = ("-p", "xdist", "-p", "bridge_server.kit.pytest_plugin")
    project_folder.runpytest_subprocess(*plugins, "-n", "2").assert_outcomes(passed=4)


def test_another_bridge_is_tested_as_far_as_it_can_be_and_in_test_mode_it_is_controlled(
    project_folder: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_folder.makepyfile(
        """
        import os, pytest

        def test_url(bridge):
            assert bridge.url == os.environ["EXPECTED"]
            assert bridge.dapp("Example").uri

        def test_clock(bridge):
            before = bridge.clock.now()
            bridge.clock.advance(hours=25)
            assert (bridge.clock.now() - before).total_seconds() >= 25 * 3600

        def test_project(bridge_project):
            bridge_project.subscribe(0)
            assert bridge_project.notify(0).sent

        @pytest.mark.bridge(session_ttl=5)
        def test_settings(bridge): pass

        def test_node(bridge, bridge_node): pass
        def test_process(bridge_process): pass
        def test_session(bridge_session): pass
        """
    )

    with server_process(tmp_path / "plain") as server:
        monkeypatch.setenv("EXPECTED", server.url)
        result = project_folder.runpytest_inprocess("-p", "no:trio", "-rs", "--bridge-url", server.url)
    result.assert_outcomes(passed=1, skipped=6)
    result.stdout.fnmatch_lines_random(
        [
            "*needs a server in test mode: start it with `serve --test`, and set BRIDGE_TEST_TOKEN*",
            "*needs an operator: set BRIDGE_ADMIN_TOKEN to the server's admin_token*",
            "*needs a bridge with settings of its own, and --bridge-url names another*",
            "*starts servers of its own, and --bridge-url names another*",
        ]
    )

    monkeypatch.setenv("BRIDGE_ADMIN_TOKEN", "of-the-operator")
    environment = {"BRIDGE_ADMIN_TOKEN": "of-the-operator"}
    with server_process(tmp_path / "tested", "--test", environment=environment) as server:
        monkeypatch.setenv("EXPECTED", server.url)
        monkeypatch.setenv("BRIDGE_TEST_TOKEN", server.facts["test_token"])
        result = project_folder.runpytest_inprocess("-p", "no:trio", "--bridge-url", f"{server.url}/")
    result.assert_outcomes(passed=3, skipped=4)


async def test_a_run_that_is_killed_leaves_no_server(project_folder: pytest.Pytester) -> None:
    project_folder.makepyfile(
        """
        import os, signal
        from pathlib import Path

        def test_it(bridge_process):
            Path("pid").write_text(str(bridge_process.pid))
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    project_folder.makeini("[pytest]")
    program = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    plugin = ("-p", "bridge_server.kit.pytest_plugin", "-p", "no:cacheprovider")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "yes", "TMPDIR": str(project_folder.path)}
    run = fork_server().start(plugin, environment, program=program, directory=project_folder.path)
    assert await asyncio.to_thread(run.wait, 60) == -signal.SIGKILL

    pid = int((project_folder.path / "pid").read_text())
    await eventually(lambda: has_ended(pid))


def has_ended(pid: int) -> bool:
    """Whether the process is gone, but for an exit code that was not read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_the_suite_of_the_page_passes_and_every_fixture_is_there(project_folder: pytest.Pytester) -> None:
    page = (Path(__file__).parents[2] / "docs" / "test.md").read_text("utf-8")
    (suite,) = re.findall(r"```python\n(.*?)```", page.split("\n## ")[1], re.DOTALL)
    project_folder.makepyfile(suite)
    run = project_folder.runpytest_inprocess("-p", "no:trio")
    run.assert_outcomes(passed=suite.count("def test_"))

    shown = project_folder.runpytest_inprocess("-p", "no:trio", "--fixtures").stdout.str()
    fixtures = set(re.findall(r"^(bridge\w*) -- ", shown, re.MULTILINE))
    assert fixtures == set(re.findall(r"^- `(bridge\w*)`: ", page, re.MULTILINE))
    assert len(fixtures) == 6
