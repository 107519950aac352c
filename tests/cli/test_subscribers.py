"""`subscriber ...`: on a data directory that no server uses."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke, Operating
from tests.support.admin_client import ETHEREUM, plain_account
from tests.support.command import COMMAND
from tests.support.needs import slow
from tests.support.programs import fork_server, shown_at_terminal
from tests.support.rows import each_row


@pytest.fixture
def app(invoke: Invoke, tmp_path: Path) -> Operating:
    """With a project and two types."""
    operate = Operating(invoke, tmp_path / "data")
    operate.text("project", "create", "My app", "--id", "app")
    for type_id in ("news", "deals"):
        operate.text("project", "type", "add", "app", "Type", "--id", type_id)
    return operate


def subscribed(app: Operating) -> dict[str, list[str]]:
    """The types of each account."""
    lines = app.lines("subscriber", "list", "app", "--json")
    return {line["account"]: line["notification_types"] for line in lines}


def write(file: Path, *lines: str | bytes) -> Path:
    file.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines))
    return file


def test_accounts_are_added_listed_and_removed_whatever_their_spelling(app: Operating) -> None:
    first, second = plain_account(1), plain_account(2)
    assert app.text("subscriber", "add", "app", first, second) == "2 subscribed, 0 updated, 0 unchanged\n"
    changed = app.json("subscriber", "add", "app", ETHEREUM, first, "--type", "deals")
    again = app.json("subscriber", "add", "app", ETHEREUM, first, "--type", "deals", "--type", "deals")

    assert changed == {"subscribed": 1, "updated": 1, "unchanged": 0}
    assert again == {"subscribed": 0, "updated": 0, "unchanged": 2}
    assert app.text("subscriber", "list", "app").splitlines() == [
        f"{ETHEREUM}  deals",
        f"{first:<{len(ETHEREUM)}}  deals",
        f"{second:<{len(ETHEREUM)}}  news, deals",
    ]
    lines = app.lines("subscriber", "list", "app", "--json")
    assert [list(line) for line in lines] == [["account", "notification_types", "subscribed_at"]] * 3
    removed = app.json("subscriber", "remove", "app", ETHEREUM.lower(), ETHEREUM.replace(":1:", ":5:"))
    assert removed == {"unsubscribed": 1, "not_subscribed": 0}
    printed = app.text("subscriber", "remove", "app", first, plain_account(9))
    assert printed == "1 unsubscribed, 1 not subscribed before\n"
    assert subscribed(app) == {second: ["news", "deals"]}


@each_row(
    ("arguments", "said"),
    [
        (("add", "app", plain_account(1), "nonsense"), "must be an account id (CAIP-10)"),
        (("add", "app", ETHEREUM.replace("0xab", "0xAB")), "checksum"),
        (("add", "app", plain_account(1), "--type", "news", "--type", "other"), "notification type 'other'"),
        (("add", "none", plain_account(1)), "no project of this id"),
        (("import", "app", "/nowhere/at/all"), "/nowhere/at/all cannot be read: No such file or directory"),
        (("export", "app", "/nowhere/at/all"), "all cannot be written: No such file or directory"),
    ],
)
def test_a_failure_changes_nothing(app: Operating, arguments: tuple[str, ...], said: str) -> None:
    assert said in app.refusal("subscriber", *arguments)
    assert subscribed(app) == {}


def test_exported_subscribers_are_imported_unchanged(app: Operating, tmp_path: Path) -> None:
    choices = (', "notification_types":["news"]', ', "notification_types":["news","deals"]',
               ', "notification_types":[]', "")  # fmt: skip
    lines = [f'{{"account":"{plain_account(n)}"{choices[n % 4]}}}' for n in range(2100)]
    app.text("subscriber", "import", "app", write(tmp_path / "in", *lines))
    file = tmp_path / "exported.jsonl"

    assert len(subscribed(app)) == 2100
    assert app.text("subscriber", "export", "app", file) == f"{file}: 2100 subscribers\n"
    assert app.text("subscriber", "export", "app", "-").encode() == file.read_bytes()
    unchanged = app.json("subscriber", "import", "app", file)
    assert unchanged == {"subscribed": 0, "updated": 0, "unchanged": 2100}
    app.text("project", "create", "Other", "--id", "other")
    for type_id in ("news", "deals"):
        app.text("project", "type", "add", "other", "Type", "--id", type_id)
    assert app.json("subscriber", "import", "other", file)["subscribed"] == 2100
    assert app.text("subscriber", "export", "other").encode() == file.read_bytes()
    app.text("project", "type", "add", "app", "Later", "--id", "later")
    assert list(subscribed(app).values())[:4] == [["news"], ["news", "deals"], [], ["news", "deals", "later"]]


def test_an_export_replaces_a_file_and_one_that_fails_does_not(app: Operating, tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    file, link, pipe = write(folder / "real", "old"), folder / "link", folder / "pipe"
    link.symlink_to(file)
    os.mkfifo(pipe)
    app.text("subscriber", "add", "app", ETHEREUM)
    app.refusal("subscriber", "export", "none", link)
    assert file.read_text() == "old\n"
    refusal = app.refusal("subscriber", "export", "app", pipe)
    assert refusal == f"{pipe} is not a file: name one, or - for standard output"
    assert app.json("subscriber", "export", "app", link) == {"file": str(link), "subscribers": 1}
    assert file.read_text() == f'{{"account":"{ETHEREUM}"}}\n'
    assert (link.is_symlink(), pipe.is_fifo()) == (True, True)
    assert sorted(path.name for path in folder.iterdir()) == ["link", "pipe", "real"]


def test_every_form_of_line_is_imported(app: Operating, tmp_path: Path) -> None:
    file = write(
        tmp_path / "lines",
        b"\xef\xbb\xbf" + plain_account(1).encode(),
        "",
        f"  {plain_account(2)}\r",
        f'{{"account": "{plain_account(3)}"}}',
        f'{{"account": "{plain_account(4)}", "notification_types": null, "subscribed_at": "whenever"}}',
        f'{{"account": "{plain_account(5)}", "notification_types": []}}\r',
        f'\t{{"account": "{plain_account(6)}", "notification_types": ["deals"]}}',
        f'{{"account": "{plain_account(6)}", "notification_types": ["news"]}}',
        plain_account(1),
    )
    with file.open("ab") as end:
        end.write(plain_account(7).encode())
    summary = app.text("subscriber", "import", "app", file)

    assert summary == "7 subscribed, 1 updated, 1 unchanged\n"
    everything = ["news", "deals"]
    assert list(subscribed(app).values()) == [everything] * 4 + [[], ["news"], everything]


@each_row(
    ("line", "said"),
    [
        ("nonsense", "must be an account id"),
        ("Alice,test:chain:1", "of a CSV file, give the column without its header"),
        (b"\xff\xfe", "must be an account id"),
        (b'{"account":"\xff"}', "not JSON"),
        ("{}", "account"),
        ('{"account":["a"]}', "account"),
        ('{"account":"test:chain:1","account":"test:chain:2"}', "twice"),
        ('{"account":"test:chain:1","notification_types":"news"}', "notification_types"),
        ('{"account":"test:chain:1","notification_types":["news","other"]}', "no notification type 'other'"),
        ("x" * 65_537, "longer than 65536 bytes"),
    ],
)
def test_a_bad_line_ends_the_import(app: Operating, tmp_path: Path, line: str | bytes, said: str) -> None:
    file = write(tmp_path / "lines", plain_account(1), "", line, plain_account(2))
    refusal = app.refusal("subscriber", "import", "app", file)
    assert refusal.startswith("line 3: ")
    assert refusal.endswith("(imported before that: 0)")
    assert said in refusal
    assert subscribed(app) == {}


def test_the_slices_before_a_bad_line_are_kept(app: Operating, tmp_path: Path) -> None:
    lines = [plain_account(number) for number in range(510)]
    file = write(tmp_path / "lines", *lines, "nonsense")
    refusal = app.refusal("subscriber", "import", "app", stdin=file.read_bytes())
    assert refusal.startswith("line 511: ")
    assert refusal.endswith("(imported before that: 500)")
    assert list(subscribed(app)) == lines[:500]
    mended = app.json("subscriber", "import", "app", write(file, *lines))
    assert mended == {"subscribed": 10, "updated": 0, "unchanged": 500}


def test_a_reader_that_has_seen_enough_ends_a_listing_quietly(app: Operating, tmp_path: Path) -> None:
    accounts = (plain_account(number) for number in range(5000))
    app.text("subscriber", "import", "app", write(tmp_path / "lines", *accounts))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed, (tmp_path / "errors").open("wb") as errors:
        command = ("subscriber", "list", "app", "--data-dir", str(app.data_dir))
        process = fork_server().start(command, os.environ, errors, closed)
    assert process.wait(60) == 1
    assert (tmp_path / "errors").read_bytes() == b""


@slow
def test_memory_does_not_grow_with_what_is_imported_and_exported(app: Operating, tmp_path: Path) -> None:
    def peak_kib(*arguments: str | Path) -> int:
        # Not by getrusage, which begins with the memory of the process that has started this one.
        script = "import re, runpy, sys; from pathlib import Path; sys.argv[0] = 'bridge-server'\n"
        script += "try: runpy.run_module('bridge_server', run_name='__main__')\n"
        script += "finally: status = Path('/proc/self/status').read_text(); "
        script += "print(re.search('VmHWM:(.*) kB', status)[1], file=sys.stderr)"
        command = [COMMAND[0], "-c", script, *map(str, arguments), "--data-dir", str(app.data_dir)]
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
        return int(done.stderr.split()[-1])

    def peaks(count: int) -> tuple[int, int]:
        file = write(tmp_path / "accounts", *map(plain_account, range(count)))
        exported = tmp_path / "out"
        return peak_kib("subscriber", "import", "app", file), peak_kib(
            "subscriber", "export", "app", exported
        )

    small, large = peaks(1_000), peaks(10_000)
    assert large[0] - small[0] < 13_000
    assert large[1] - small[1] < 5_000


def test_a_terminal_shows_how_far_an_import_and_an_export_are(app: Operating, tmp_path: Path) -> None:
    def shown(*arguments: str | Path) -> str:
        return shown_at_terminal("subscriber", *arguments, "--data-dir", app.data_dir)

    file = write(tmp_path / "subscribers", *map(plain_account, range(1_200)))
    imported, exported = shown("import", "app", file), shown("export", "app", tmp_path / "copy")
    listed = shown("list", "app", "--json").splitlines()

    size = file.stat().st_size
    assert f"{size}/{size}" in imported
    assert "1200 subscribed, 0 updated, 0 unchanged" in imported
    assert "1200/1200" in exported
    assert shown("import", "app", os.devnull).splitlines() == ["0 subscribed, 0 updated, 0 unchanged"]
    assert all(line.startswith("{") for line in listed)
    assert len(listed) == 1_200
