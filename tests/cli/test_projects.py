"""`project ...`, and what every command says of a data directory that it cannot use."""

import os
import pty
import re
from datetime import date
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke, Operating, SetUp
from tests.support.command import run_command
from tests.support.engines import database_of, engine_environment, settings_over
from tests.support.rows import each_row

INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
SECRET = re.compile(r"^secret +(bsk_[A-Za-z0-9_-]{43})$", re.MULTILINE)
ETHEREUM = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"


@pytest.fixture
def operate(invoke: Invoke, tmp_path: Path) -> Operating:
    return Operating(invoke, tmp_path / "data")


@pytest.fixture
def app(operate: Operating) -> Operating:
    """With a project."""
    operate.text("project", "create", "My app", "--id", "app")
    return operate


def test_a_project_has_an_id_that_is_made_from_its_name(operate: Operating) -> None:
    for name, *ids in (
        ("Shop", "shop", "shop-2"), ("Ma Boutique: été!", "ma-boutique-ete"), ("Inbox", "inbox-2", "inbox-3"),
        ("x" * 64, "x" * 64, f"{'x' * 59}-2"), ("商店", "[0-9a-f]{32}"),
    ):  # fmt: skip
        made = [operate.json("project", "create", name)["project_id"] for _ in ids]
        assert all(map(re.fullmatch, ids, made)), made


def test_create_prints_the_secret_once_and_projects_are_listed_oldest_first(operate: Operating) -> None:
    printed = operate.text("project", "create", "My app 😀", "--id", "my-app")
    made = operate.json("project", "create", "A much longer name", "--id", "a-longer-id")
    heading, first, second = operate.text("project", "list").splitlines()

    assert printed.startswith("project  my-app\nname     My app 😀\nsecret   ")
    assert "not shown again" in printed
    found = SECRET.search(printed)
    assert found is not None
    later = operate.text("project", "show", "my-app") + operate.text("project", "show", "my-app", "--json")
    assert found[1] not in later + operate.text("project", "list")
    assert re.fullmatch("bsk_[A-Za-z0-9_-]{43}", made.pop("secret")["secret"])
    assert made == operate.json("project", "show", "a-longer-id")
    assert heading == "project      name                created"
    assert re.fullmatch(rf"my-app       My app 😀 +{INSTANT}", first)
    assert re.fullmatch(rf"a-longer-id  A much longer name  {INSTANT}", second)


def test_empty_lists_are_said_in_words_and_empty_in_json(app: Operating) -> None:
    assert app.text("project", "type", "list", "app").startswith("this project has no notification types")
    assert app.json("project", "type", "list", "app") == {"types": []}
    assert app.text("subscriber", "list", "app") == "this project has no subscribers\n"
    for command in ("list", "export"):
        assert app.text("subscriber", command, "app", *["--json"] * (command == "list")) == ""
    assert app.text("outbox", "list") == "the outbox is empty\n"
    assert app.text("outbox", "list", "--dead") == "the outbox has no such message\n"
    assert app.json("outbox", "list") == {"messages": []}
    assert app.text("project", "delete", "app", "--yes") == "project app is deleted\n"
    assert app.text("project", "list") == "there are no projects: `project create` makes one\n"
    assert app.json("project", "list") == {"projects": []}


def test_show_prints_what_belongs_to_the_project(app: Operating) -> None:
    app.text("project", "type", "add", "app", "News", "--id", "news")
    app.text("project", "type", "add", "app", "Deals", "--id", "deals")
    app.text("project", "rotate-secret", "app")
    app.text("project", "webhook", "app", "--url", "https://app.example/hook")
    app.text("subscriber", "add", "app", ETHEREUM)
    printed = app.text("project", "show", "app")

    assert re.sub(INSTANT, "THEN", printed).splitlines() == [
        "project        app",
        "name           My app",
        "created        THEN",
        "account limit  2 per hour, 50 at once (the server's)",
        "webhook        https://app.example/hook",
        "secrets        1 (made THEN)",
        "               2 (made THEN)",
        "types          news (News)",
        "               deals (Deals)",
        "subscribers    1",
    ]


def test_secrets_rotate_and_are_revoked_by_number(app: Operating) -> None:
    printed = app.text("project", "rotate-secret", "app")
    assert SECRET.search(printed)
    assert "not shown again" in printed
    assert "2 live secrets" in app.refusal("project", "rotate-secret", "app")
    assert app("project", "revoke-secret", "app", "0").exit_code == 2
    assert app.text("project", "revoke-secret", "app", "1") == "secret 1 is revoked\n"
    assert app.json("project", "rotate-secret", "app")["number"] == 3
    assert app.json("project", "revoke-secret", "app", "2") == {"success": True}
    assert [secret["number"] for secret in app.json("project", "show", "app")["secrets"]] == [3]


def test_limits_are_shown_set_and_reset(app: Operating, set_up: SetUp) -> None:
    set_up(account_burst=9)
    assert app.text("project", "limits", "app") == "2 per hour, 9 at once (the server's)\n"
    own = app.text("project", "limits", "app", "--per-hour", "7.5", "--burst", "1000000")
    assert own == app.text("project", "limits", "app")
    assert own == "7.5 per hour, 1000000 at once (the project's own)\n"
    assert app.json("project", "limits", "app") == {"per_hour": 7.5, "burst": 1_000_000, "own": True}
    assert app.json("project", "limits", "app", "--reset") == {"per_hour": 2, "burst": 9, "own": False}


def test_a_webhook_is_set_shown_and_removed(app: Operating) -> None:
    printed = app.text("project", "webhook", "app", "--url", "https://app.example/a")
    assert re.search(r"^signing secret  whsec_\S+$", printed, re.MULTILINE)
    assert "not shown again" in printed
    assert app.text("project", "webhook", "app") == "https://app.example/a\n"
    told = app.json("project", "webhook", "app", "--url", "https://app.example/b")
    assert told == {"url": "https://app.example/b", "signing_secret": told["signing_secret"]}
    assert app.text("project", "webhook", "app", "--remove") == "the webhook is removed\n"
    assert app.text("project", "webhook", "app") == "there is no webhook\n"
    assert app.json("project", "webhook", "app") == {"url": None}


def test_types_are_added_renamed_listed_and_removed(app: Operating) -> None:
    assert app.text("project", "type", "add", "app", "News", "--id", "news") == "type  news\nname  News\n"
    made = app.json("project", "type", "add", "app", "Deals")
    assert app.text("project", "type", "rename", "app", "news", "Today") == "type  news\nname  Today\n"
    heading, first, second = app.text("project", "type", "list", "app").splitlines()
    assert heading.split() == ["type", "name", "created"]
    assert first.split()[:2] == ["news", "Today"]
    assert heading.index("name") == first.index("Today") == second.index("Deals")
    assert app.text("project", "type", "remove", "app", "news") == "type news is removed\n"
    assert app.json("project", "type", "list", "app") == {"types": [made]}
    assert app.json("project", "type", "remove", "app", made["type_id"]) == {"success": True}


def test_analytics_is_a_table_by_type_and_day(app: Operating) -> None:
    for type_id in ("news", "deals"):
        app.text("project", "type", "add", "app", "Type", "--id", type_id)
    day = (date(2026, 1, 31) - date(1970, 1, 1)).days
    with database_of(settings_over(app.data_dir)) as database:  # as if a server had sent
        database.executemany(
            "INSERT INTO daily_figures (project, type, day, sent, read, bulk_marked)"
            " SELECT project, id, ?, ?, ?, ? FROM notification_types WHERE type_id = ?",
            [(day, 1000, 250, 0, "news"), (day + 1, 4, 1, 2, "news"),
             (day + 1, 3, 0, 3, "deals"), (day + 2, 9, 9, 0, "deals")],
        )  # fmt: skip
    printed = app.text("project", "analytics", "app", "--from", "2026-01-31", "--to", "2026-02-01")
    assert printed.splitlines() == [
        "2026-01-31 to 2026-02-01",
        "",
        "type   day         sent  read  bulk-marked  read rate",
        "news   2026-01-31  1000   250            0      25.0%",
        "news   2026-02-01     4     1            2      50.0%",
        "news   all         1004   251            2      25.0%",
        "deals  2026-02-01     3     0            3          -",
        "deals  all            3     0            3          -",
        "all    all         1007   251            5      25.0%",
    ]


@pytest.mark.parametrize(
    ("answer", "options", "exit_code"), [("y", (), 0), ("", (), 1), ("y", ("--json",), 2)]
)
def test_on_a_terminal_delete_asks_first_but_not_for_json(
    app: Operating, answer: str, options: tuple[str, ...], exit_code: int
) -> None:
    main, terminal = pty.openpty()
    try:
        os.write(main, f"{answer}\n".encode())
        finished = run_command(
            "project", "delete", "app", "--data-dir", app.data_dir, *options,
            environment=engine_environment(app.data_dir), stdin=terminal,
        )  # fmt: skip
    finally:
        os.close(main)
        os.close(terminal)

    said = "--yes" if options else "Delete the project app (My app), its 0 subscriptions"
    assert said in finished.out + finished.err
    assert finished.exit_code == exit_code
    assert len(app.json("project", "list")["projects"]) == (exit_code != 0)


@each_row(
    ("arguments", "said"),
    [
        (("create", "x" * 65), "name must have 1 to 64 characters"),
        (("create", "App", "--id", "app"), "project of this id already"),
        (("show", "\udcff"), "not text in UTF-8"),
        (("show", "ap"), "there is no project of this id, but app"),
        (("limits", "app", "--per-hour", "1"), "--per-hour and --burst go together"),
        (("limits", "app", "--reset", "--burst", "1"), "--reset does not go with --per-hour or --burst"),
        (("limits", "app", "--per-hour", "nan", "--burst", "0"), "per_hour must be 0.001 to 1000000; burst"),
        (("webhook", "app", "--url", "https://app.example", "--remove"), "do not go together"),
        (("analytics", "app", "--from", "2026-01-02", "--to", "2026-01-01"), "ends before it begins"),
        (("type", "remove", "app", "none"), "no notification type of this id"),
        (("delete", "app"), "--yes"),  # without a terminal
    ],
)
def test_a_failure_changes_nothing(app: Operating, arguments: tuple[str, ...], said: str) -> None:
    before = app.json("project", "show", "app")
    for form in ((), ("--json",)):
        assert said in app.refusal("project", *arguments, *form)
    assert app.json("project", "show", "app") == before


@pytest.mark.sqlite("a command on PostgreSQL needs no data directory")
def test_a_database_a_setting_or_a_data_directory_that_cannot_be_used_is_one_line(
    invoke: Invoke, tmp_path: Path, operate: Operating, set_up: SetUp
) -> None:
    (tmp_path / "file").write_text("no directory")
    operate.data_dir.mkdir()
    (operate.data_dir / "bridge.sqlite3").write_bytes(b"not a database, by any stretch" * 100)
    for command in (("subscriber", "list", "app"), ("push", "test", "--topic", "t"), ("backup", "copy")):
        assert "there is no database" in Operating(invoke, tmp_path / "elsewhere").refusal(*command)
    assert not (tmp_path / "elsewhere").exists()
    impossible = Operating(invoke, tmp_path / "file" / "data").refusal("project", "create", "App")
    assert "cannot be used" in impossible
    assert str(tmp_path / "file") in impossible
    assert "cannot be used: file is not a database" in operate.refusal("project", "list")
    set_up(port=65536)
    assert "port" in operate.refusal("project", "list")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take another user's place")
def test_root_is_refused_in_another_users_data_directory(invoke: Invoke, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    for command in ("account", "project"):
        result = invoke(command, "list", "--data-dir", home)
        assert result.exit_code == 2, command
        assert "sudo -u" in result.stderr
        assert list(home.iterdir()) == []
