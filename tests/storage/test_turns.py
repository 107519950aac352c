"""Turns: which things a transaction decides about, and how transactions of several processes take them.

Their table is read from the code: a turn that is missing shows to clients only by chance.
"""

import ast
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import bridge_server
from bridge_server.outbox.topics import Topic
from bridge_server.projects.models import Project, ProjectId, Publisher
from bridge_server.pubsub.v1_store import Changes, Message
from bridge_server.pubsub.v2_models import ClientKey, Publication, Publishing, Subscribing, Unsubscribing
from bridge_server.storage.database import NO_TURNS, Row, Transaction, Turn, Turns, Value, striped
from bridge_server.storage.postgres.group_commit import beginning, lock_key
from tests.support.engines import modules
from tests.support.rows import each_row

PACKAGE = Path(bridge_server.__file__).parent
DECORATORS = {"transaction", "adding_transaction"}
PROJECT_ID = ProjectId("p1")
PROJECT = Turn("project", "p1")
PUBLISHER = Publisher(Project(7, PROJECT_ID, "Shop", 1, None, None), b"digest")
SENDINGS, FIGURES, ACCESS = Turn("sendings"), Turn("figures"), Turn("console-access")
STORED = Turns((Turn("stored-messages"),))
TOPIC, OTHER_TOPIC = Topic("t1"), Topic("t2")
CLIENT, OTHER_CLIENT = ClientKey("c1"), ClientKey("c2")
CALL = SimpleNamespace(session_id="s1", call_id="c1")
SENDER = "0x01"
REQUEST, OF_SENDER = SimpleNamespace(sender=SENDER), Turn("wallet", SENDER)
SENT_ONCE = Message(1, TOPIC, b"text", 1, "10.0.0.1", 5)
CHANGES = Changes((SENT_ONCE,), (9,), (SENT_ONCE, Message(2, OTHER_TOPIC, b"text", 1, None, 5)))
IGNORED = None


def swept(name: str, *others: Turn) -> Turns:
    return Turns((Turn("sweep", name), *others))


def topics(*names: str) -> tuple[Turn, ...]:
    return tuple(striped("topic", name) for name in names)


def publishing(topic: Topic, subscribes: Topic) -> Publishing:
    publication = Publication(topic, "text", 5, 0, prompt=False, attestation=None)
    return Publishing((publication,), subscribes, CLIENT, "10.0.0.1", "call")


ADDRESS = striped("address", "10.0.0.1")
SENDING = Turns((PROJECT, SENDINGS), shared=(FIGURES,))
STORES = {name: kind for module in modules() for name, kind in vars(import_module(module)).items()}
IRN_CHANGES = (
    publishing(TOPIC, OTHER_TOPIC),
    Subscribing(OTHER_CLIENT, None, (TOPIC,), lambda _: None),
    Unsubscribing(OTHER_CLIENT, (OTHER_TOPIC,), lambda _: None),
)
OF_CLIENT, OF_OTHER_CLIENT = striped("irn-client", CLIENT), striped("irn-client", OTHER_CLIENT)
OF_IRN_CHANGES = Turns((OF_CLIENT, *topics("t1", "t2"), ADDRESS, OF_OTHER_CLIENT, *topics("t3")))
TURNS: list[tuple[str, Sequence[object], Turns]] = [
    # Statements that each decide for themselves, by a condition or by a unique key.
    ("AccessStore.add_link", (b"digest", 5), NO_TURNS),
    ("AccessStore.sign_in", (b"link", b"session", 5, 1), Turns(shared=(ACCESS,))),
    ("AccessStore.sign_out", (b"session",), NO_TURNS),
    ("AccessStore.sign_out_all", (), Turns((ACCESS,))),
    ("AccessStore.sweep", (1,), swept("console")),
    ("DeviceStore.add", (3, "d1", IGNORED, 1, 5), Turns((Turn("account", "3"),))),
    ("DeviceStore.remove", (3, "d1"), Turns(shared=(SENDINGS,))),
    ("DeviceStore.forget", ("d1", "url", "m1"), Turns(shared=(SENDINGS,))),
    ("SignInStore.add_nonce", (IGNORED,), NO_TURNS),
    ("SignInStore.sign_in", ("nonce", IGNORED, b"digest", 5, 1), NO_TURNS),
    ("SignInStore.sign_out", (b"digest",), NO_TURNS),
    ("SignInStore.sweep", (1,), swept("sign-ins")),
    ("InboxStore.mark_read", (3, (1,), 1, IGNORED), Turns((FIGURES,))),
    ("NotifyStore.send", (PUBLISHER, IGNORED, IGNORED, 1, IGNORED), SENDING),
    ("NotifyStore.send", (PROJECT_ID, IGNORED, IGNORED, 1, IGNORED), SENDING),  # by an operator
    ("NotifyStore.mark_all_as_read", (PUBLISHER, 1), Turns((PROJECT, FIGURES))),
    ("NotifyStore.sweep", (1, IGNORED), swept("notifications", FIGURES)),
    ("MessageStore.retry", (1, "m1", 1), STORED),
    ("MessageStore.drop", (1, "m1"), STORED),
    ("MessageStore.retry_dead", (None, None, 1, 1), STORED),
    ("MessageStore.drop_dead", (None, None, 1), STORED),
    # Rows by their ids. The counts are figures, which each recount puts right.
    ("OutboxStore.delete_delivered", ((), 1, ()), NO_TURNS),
    ("OutboxStore.postpone", (IGNORED, 1, "error", 1, None), NO_TURNS),
    ("OutboxStore.bury", (IGNORED, 1, "error", None), NO_TURNS),
    ("OutboxStore.count", (), NO_TURNS),
    ("OutboxStore.sweep", (1, 1, 5), swept("outbox")),
    ("ProjectStore.create", (PROJECT_ID, "Shop", b"digest", 1), NO_TURNS),
    ("ProjectStore.delete", (PROJECT_ID,), Turns((PROJECT,))),
    ("ProjectStore.add_secret", (PROJECT_ID, b"digest", 1, 5), Turns((PROJECT,))),
    ("ProjectStore.remove_secret", (PROJECT_ID, 1), Turns((PROJECT,))),
    ("ProjectStore._change", (PROJECT_ID, "sql", "value"), Turns((PROJECT,))),
    ("ProjectStore.sweep", (1,), swept("projects", FIGURES)),
    ("SubscriptionStore.subscribe", (PROJECT_ID, (), 1, IGNORED), Turns((PROJECT,))),
    ("SubscriptionStore.unsubscribe", (PROJECT_ID, (), 1, IGNORED), Turns((PROJECT,))),
    ("ProjectStore.add_type", (PROJECT_ID, IGNORED, "News", 1, 5), Turns((PROJECT,))),
    ("ProjectStore.rename_type", (PROJECT_ID, "news", "News"), Turns((PROJECT,))),
    ("ProjectStore.remove_type", (PROJECT_ID, "news", 1), Turns((PROJECT,))),
    ("TopicStore._apply", (CHANGES, 1, IGNORED, IGNORED), Turns((*topics("t1", "t2"), ADDRESS))),
    ("TopicStore.sweep", (1, 5), swept("topics")),
    ("IrnStore._apply", (IRN_CHANGES, 0, {(CLIENT, Topic("t3")): [4, 4]}, IGNORED), OF_IRN_CHANGES),
    ("IrnStore.take_id_block", (), NO_TURNS),
    ("IrnStore.sweep", (1, 5), swept("irn")),
    ("IrnStore.announce", ([],), NO_TURNS),
    ("PushStore.register", (SimpleNamespace(topic=TOPIC), 1, True), Turns(topics("t1"))),
    ("PushStore.unregister", (TOPIC, "url"), Turns(topics("t1"))),
    ("PushStore.queue", (IGNORED, 1), NO_TURNS),
    ("PushStore.sweep", (1,), swept("push-registrations")),
    ("RelayStore.create_session", ("s1", 5), NO_TURNS),
    ("RelayStore.update_session", ("s1", IGNORED, 1, 5), NO_TURNS),
    ("RelayStore.delete_session", ("s1", 1), Turns((Turn("session", "s1"),))),
    ("RelayStore.add_call", (CALL, 1, 5, IGNORED), Turns((Turn("session", "s1"),))),
    # An upsert. A sweeper that deletes the call meanwhile makes its foreign key fail, and it is run again.
    ("RelayStore.set_status", ("c1", b"payload", 1, 5), NO_TURNS),
    ("RelayStore.subscribe", (TOPIC, "webhook", 1, 5, 5), Turns(topics("t1"))),
    ("RelayStore.forget_webhook", ("s1", "webhook"), NO_TURNS),
    ("RelaySweepStore._delete", ([], "sql", (1,)), swept("relay")),
    ("RelaySweepStore.sweep_webhooks", (1, 5), swept("webhooks")),
    ("EveryTable.empty", (), NO_TURNS),
    ("ApprovalStore.add", (IGNORED,), NO_TURNS),
    ("ApprovalStore.decide", ("a1", IGNORED, 1), NO_TURNS),
    ("ApprovalStore.expire_all", (1,), NO_TURNS),
    ("ApprovalStore.sweep", (1, 5), swept("approvals")),
    ("TransactionStore.reserve", (REQUEST, 1, None, 0, IGNORED, 1), Turns((OF_SENDER,))),
    ("TransactionStore.keep", (REQUEST, 1, None, 1), Turns((OF_SENDER,))),
    ("TransactionStore.accept", ("id", 1), NO_TURNS),
    ("TransactionStore._write", ([],), NO_TURNS),
    # The accounts that are known of transactions whose states change.
    ("TransactionStore._write", ([], {"0x02", SENDER}), Turns((OF_SENDER, Turn("wallet", "0x02")))),
    ("TransactionStore.sweep", (1, 5), swept("transactions")),
    ("BucketStore.sweep", (1,), swept("buckets")),
]


class RecordingDatabase:
    """Runs nothing, and keeps the turns of the last transaction."""

    takes_turns = True
    is_busy = is_full = False
    turns: Turns | None = None

    def require_room(self) -> None:
        raise AssertionError

    async def read(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        raise AssertionError(sql, parameters)

    async def transaction(
        self, begin: Callable[[], Transaction[Any]], *, adds: bool = False, turns: Turns = NO_TURNS
    ) -> Any:
        assert isinstance(begin, partial)
        self.turns = turns


def test_every_transaction_is_in_the_table_or_needs_no_turn() -> None:
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    found = [
        f"{store.name}.{method.name}"
        for text in texts.values()
        if any(name in text for name in DECORATORS)
        for store in ast.walk(ast.parse(text))
        if isinstance(store, ast.ClassDef)
        for method in store.body
        if isinstance(method, ast.FunctionDef) and DECORATORS & set(map(_name, method.decorator_list))
    ]
    others = {file for file, text in texts.items() if "database.transaction(" in text}

    assert sorted(found) == sorted({name for name, *_ in TURNS})
    assert others == {
        "storage/database.py",
        # They save token buckets, by upserts, in SQLite only.
        "assembly/system_routes.py",
        "assembly/storage.py",
        # In PostgreSQL's own tables each transaction is one statement, which decides by itself.
        "storage/postgres/processes.py",
    }


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


@each_row(("name", "arguments", "turns"), TURNS)
async def test_a_transaction_names_its_turns(name: str, arguments: Sequence[object], turns: Turns) -> None:
    database = RecordingDatabase()
    store, method = name.split(".")
    await getattr(STORES[store], method)(SimpleNamespace(database=database), *arguments)
    assert database.turns == turns


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3), st.booleans())))
def test_all_processes_take_locks_in_one_order(named: list[tuple[str, str, bool]]) -> None:
    turns = [(Turn(kind, id_), is_alone) for kind, id_, is_alone in named]
    jobs = [Turns((turn,)) if is_alone else Turns((), (turn,)) for turn, is_alone in turns]
    script = beginning(jobs)
    keys = sorted({lock_key(turn) for turn, _ in turns})
    assert script == beginning(reversed(jobs))
    assert (f"ARRAY[{','.join(map(str, keys))}]" in script) if keys else script == "BEGIN"


def test_the_lock_of_a_turn_is_known_to_every_version() -> None:
    assert lock_key(Turn("session", "1")) == -3354317400142453170
    assert lock_key(Turn("ab", "c")) != lock_key(Turn("a", "bc"))
