"""Breaks twenty rules of the product, one at a time in a copy, and names a test that fails for each.

`scripts/mutants` runs them all; `scripts/mutants WORD` those whose name has the word. It ends with 1 if a
broken rule is not noticed, if a named test is red before a rule is broken, or if the text to change no longer
stands in its file; `scripts/mutants --check`, which scripts/check runs, looks at the texts alone.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from os import cpu_count, environ
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Mutant:
    """A rule that is broken: a text of a file, and the text in its place. `tests` are the files to run."""

    name: str
    file: str
    before: str
    after: str
    tests: str


MUTANTS = (
    Mutant(
        "a title of 65 characters is accepted", "notify/wire.py",
        "TITLE_MAX_CHARACTERS = 64", "TITLE_MAX_CHARACTERS = 65", "tests/notify/test_fields.py",
    ),
    Mutant(
        "501 accounts are accepted", "notify/wire.py",
        "NOTIFY_MAX_ACCOUNTS = 500", "NOTIFY_MAX_ACCOUNTS = 501", "tests/notify/test_fields.py",
    ),
    Mutant(
        "a look-up of 101 accounts is accepted", "notify/wire.py",
        "LOOKUP_MAX_ACCOUNTS = 100", "LOOKUP_MAX_ACCOUNTS = 101", "tests/notify/test_fields.py",
    ),
    Mutant(
        "notify may be called 21 times at once", "notify/routes.py",
        'Limit("notify-calls", burst=20', 'Limit("notify-calls", burst=21',
        "tests/notify/test_limits.py",
    ),
    Mutant(
        "mark-all-as-read may be called 6 times at once", "notify/routes.py",
        "burst=5, interval_us=3_600", "burst=6, interval_us=3_600", "tests/notify/test_limits.py",
    ),
    Mutant(
        "subscribers may be listed every 240 seconds", "notify/routes.py",
        "interval_us=300 * MICROSECONDS", "interval_us=240 * MICROSECONDS",
        "tests/notify/test_limits.py",
    ),
    Mutant(
        "an account gets 51 notifications at once", "settings/rooms.py",
        "account_burst: types.Burst = setting(50,", "account_burst: types.Burst = setting(51,",
        "tests/notify/test_limits.py",
    ),
    Mutant(
        "a repeated notification_id sends again", "notify/store.py",
        "WHERE NOT EXISTS (\n    SELECT 1 FROM accounts CROSS JOIN covered_accounts",
        "WHERE EXISTS (\n    SELECT 1 FROM accounts CROSS JOIN covered_accounts",
        "tests/notify/test_idempotency.py",
    ),
    Mutant(
        "a repeated notification_id sends the later text", "notify/store.py",
        "content = models.Notification(TypeId(type_id), title, body, url)", "content = request.notification",
        "tests/notify/test_devices.py",
    ),
    Mutant(
        "notifications that were marked in bulk count in the read rate", "notify/store.py",
        "UPDATE daily_figures SET bulk_marked = sent - read - lapsed",
        "UPDATE daily_figures SET bulk_marked = 0", "tests/notify/test_mark_all.py",
    ),
    Mutant(
        "bulk marks are missing from a notification's history", "notify/store.py",
        "THEN notifications.sent - notifications.read - notifications.lapsed",
        "THEN 0", "tests/admin/test_notifications.py",
    ),
    Mutant(
        "a line break vanishes", "notify/wire.py",
        '_LINE_BREAKS.sub(" ", text)', '_LINE_BREAKS.sub("", text)', "tests/notify/test_fields.py",
    ),
    Mutant(
        "a poll with nothing to read answers 202", "web/prefer.py",
        "WholeAnswer(status=204,", "WholeAnswer(status=202,", "tests/relay/test_contract.py",
    ),
    Mutant(
        "/hello does not state the version", "relay/wire.py",
        "this is {NAME} v{VERSION}", "this is {NAME}", "tests/relay/test_contract.py",
    ),
    Mutant(
        "a call can be read through another session", "relay/store.py",
        "calls.call_id = ? AND sessions.session_id = ? AND",
        "calls.call_id = ? AND (sessions.session_id = ? OR true) AND", "tests/relay/test_contract.py",
    ),
    Mutant(
        "/push answers `success` without `successs`", "push/routes.py",
        '{"success":true,"successs":true}', '{"success":true}', "tests/push/test_contract.py",
    ),
    Mutant(
        "the length of a signed message is hexadecimal", "ethereum/signing_key.py",
        'b"%b%d%b"', 'b"%b%x%b"', "tests/wallet/test_signatures.py",
    ),
    Mutant(
        "gas is 21000 where none is given", "wallet/transactions/requests.py",
        "USUAL_GAS = 90_000", "USUAL_GAS = 21_000", "tests/wallet/test_transactions.py",
    ),
    Mutant(
        "the zero hash has 31 bytes", "wallet/transactions/broadcasting.py",
        'ZERO_HASH = "0x" + "00" * 32', 'ZERO_HASH = "0x" + "00" * 31', "tests/wallet/test_broadcasting.py",
    ),
    Mutant(
        "a locked account answers another error", "wallet/rpc/wire.py",
        "    errors.ForbiddenError: UNAUTHORIZED,", "    errors.ForbiddenError: INVALID_STATE,",
        "tests/wallet/test_accounts.py",
    ),
)  # fmt: skip


def misplaced(mutant: Mutant) -> str | None:
    """The complaint if the text to change does not stand once in its file."""
    times = (_ROOT / "bridge_server" / mutant.file).read_text("utf-8").count(mutant.before)
    return None if times == 1 else f"{mutant.file} has {mutant.before!r} {times} times, and not once"


def judge(mutant: Mutant) -> tuple[bool, str]:
    """Whether a test notices the broken rule, and which, or what is wrong."""
    if (complaint := misplaced(mutant)) is not None:
        return False, complaint
    with _copied() as copy:
        file = copy / "bridge_server" / mutant.file
        file.write_text(file.read_text("utf-8").replace(mutant.before, mutant.after), "utf-8")
        finished = _tested(copy, "-x", *mutant.tests.split())
        failed = re.search(r"^FAILED (\S+)", finished.stdout, re.MULTILINE)
        if finished.returncode == 1 and failed is not None:
            return True, failed[1]
        if finished.returncode == 0:
            return False, f"{mutant.tests}: no test fails"
        return False, (finished.stdout + finished.stderr)[-800:]


def red_unbroken(mutants: Sequence[Mutant]) -> str | None:
    """The complaint if a test is red while no rule is broken: it would seem to notice every rule."""
    tests = dict.fromkeys(name for mutant in mutants for name in mutant.tests.split())
    with _copied() as copy:
        finished = _tested(copy, *tests)
    if finished.returncode == 0:
        return None
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", finished.stdout, re.MULTILINE)
    red = ", ".join(failed) or (finished.stdout + finished.stderr)[-800:]
    return f"these tests are red while no rule is broken, so nothing can be said about rules: {red}"


@contextmanager
def _copied() -> Iterator[Path]:
    """A copy of the package and its tests, to break a rule in."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("bridge_server", "tests"):
            shutil.copytree(
                _ROOT / name, copy / name, symlinks=True,
                ignore=shutil.ignore_patterns("__pycache__", "node_modules"),
            )  # fmt: skip
        for name in ("pyproject.toml", "docs", "scripts"):
            (copy / name).symlink_to(_ROOT / name)
        yield copy


def _tested(copy: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest in the copy with these arguments."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=copy, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False,
        env={**environ, "PYTHONPATH": str(copy)},
    )  # fmt: skip


def main() -> int:
    """Print a line for each broken rule; 1 if one is not noticed."""
    if sys.argv[1:] == ["--check"]:
        complaints = [complaint for complaint in map(misplaced, MUTANTS) if complaint is not None]
        print("\n".join(complaints), end="\n" if complaints else "")
        return 1 if complaints else 0
    chosen = [mutant for mutant in MUTANTS if all(word in mutant.name for word in sys.argv[1:])]
    if chosen and (complaint := red_unbroken(chosen)) is not None:
        print(complaint)
        return 1
    with ThreadPoolExecutor(cpu_count()) as pool:
        verdicts = list(pool.map(judge, chosen))
    for mutant, (is_noticed, by) in zip(chosen, verdicts, strict=True):
        print(f"{'caught' if is_noticed else 'MISSED'}  {mutant.name}: {by}")
    print(f"{sum(is_noticed for is_noticed, _ in verdicts)} of {len(chosen)} broken rules are caught")
    return 0 if chosen and all(is_noticed for is_noticed, _ in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
