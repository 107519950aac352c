"""The lint that keeps tests apart from the speed of the machine, through its command line."""

import subprocess
import sys
from pathlib import Path

from tests.support.rows import each_row

SCRIPT = Path(__file__).parents[1] / "scripts" / "test_rules.py"

FAULTS = {
    "a sleep": ("await asyncio.sleep(0.05)", "sleeps"),
    "a blocking sleep": ("time.sleep(seconds)", "sleeps"),
    "a wait that is one": ("await asyncio.wait([task], timeout=0.2)", "sleeps"),
    "a duration": ("assert perf_counter() - started < 5", "wall's clock"),
    "a patience loop of its own": ("assert time.monotonic() < deadline", "wall's clock"),
    "a limit as an argument": ("open_client(timeout_seconds=0.3)", "limit below a second"),
    "a limit by its place": ("await asyncio.wait_for(work, 0.5)", "limit below a second"),
    "a limit that is patched": ('monkeypatch.setattr(web, "_BODY_SECONDS", 0.05)', "limit below a second"),
    "a limit among settings": ('serve(**{"webhook_timeout": 0.2})', "limit below a second"),
    "a limit of PostgreSQL": ('patch.setitem(all, "lock_timeout", "50ms")', "limit below a second"),
    "a limit with a name": ("server.limits.head_seconds = 0.01", "limit below a second"),
    "a number that counts up": ("await eventually(lambda: len(receiver.requests) == 3)", "counts up"),
}
SOUND = {
    "a turn of the loop": "await asyncio.sleep(0)",
    "a patience": "await asyncio.wait_for(work, 60)",
    "none": "open_client(timeout_seconds=0)",
    "a pause": 'monkeypatch.setattr(web, "_FIRST_PAUSE_SECONDS", 0.01)',
    "what is to run out": "with pytest.raises(AnswerTimeoutError):\n    await dapp.approval(timeout=0.05)",
    "a number that may be passed": "await eventually(lambda: len(receiver.requests) >= 3)",
}


def checked(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    """What the lint says of a folder with this one test."""
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    (folder / "test_it.py").write_text(f"async def test_it():\n{lines}", "utf-8")
    command = [sys.executable, str(SCRIPT), str(folder)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=60)


@each_row(("text", "said"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_told_with_its_place_and_what_to_do(tmp_path: Path, text: str, said: str) -> None:
    finished = checked(tmp_path, text)

    assert finished.returncode == 1
    assert finished.stdout.startswith(f"{tmp_path / 'test_it.py'}:2: ")
    assert said in finished.stdout
    assert finished.stdout.count("\n") == 1


def test_what_holds_on_a_slow_machine_is_passed(tmp_path: Path) -> None:
    finished = checked(tmp_path, "\n".join(SOUND.values()))

    assert (finished.returncode, finished.stdout) == (0, "")


def test_a_condition_is_read_where_it_is_defined(tmp_path: Path) -> None:
    defined = "async def holds():\n    return service.sent == {}\nawait eventually(holds)"

    assert checked(tmp_path, defined.format(2)).returncode == 1
    assert checked(tmp_path, defined.format(0)).returncode == 0


def test_a_row_that_is_not_needed_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "tests").mkdir()
    copy = tmp_path / "scripts" / SCRIPT.name
    copy.write_text(SCRIPT.read_text("utf-8"), "utf-8")

    finished = subprocess.run(
        [sys.executable, copy], capture_output=True, encoding="utf-8", check=False, timeout=60
    )

    assert finished.returncode == 1
    assert "support/eventually.py needs its row in the table of sleep no more" in finished.stdout
