"""The turns of every transaction: which things it decides about by what it has read.

A transaction that is not in the table fails the test: think of two of them at once, in two processes, or one
statement after the other in one transaction of PostgreSQL.
"""

import ast
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bridge_server
from bridge_server.console.access import AccessStore
from bridge_server.inbox.devices import DeviceStore
from bridge_server.inbox.sign_in import SignInStore
from bridge_server.inbox.store import InboxStore
from bridge_server.notify.store import NotifyStore
from bridge_server.outbox.message_store import MessageStore
from bridge_server.outbox.store import OutboxStore
from bridge_server.outbox.topics import Topic
from bridge_server.projects.models import Project, ProjectId, Publisher
from bridge_server.projects.store import NotificationTypeStore, ProjectStore
from bridge_server.projects.subscriptions import SubscriptionStore
from bridge_server.pubsub.v1_store import Changes, Message, TopicStore
from bridge_server.pubsub.v2_models import ClientKey, Envelope, Publishing, Subscribing, Unsubscribing
from bridge_server.pubsub.v2_store import IrnStore
from bridge_server.push.store import PushStore
from bridge_server.relay.store import RelayStore, RelaySweepStore
from bridge_server.storage.database import NO_TURNS, Row, Transaction, Turn, Turns, Value, striped
from bridge_server.testmode.service import EveryTable
from bridge_server.wallet.approvals import ApprovalStore
from bridge_server.wallet.transactions.store import TransactionStore
from bridge_server.web.limits import BucketStore
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
REQUEST = SimpleNamespace(sender=SENDER)
SENT_ONCE = Message(1, TOPIC, b"text", 1, "10.0.0.1", 5)
ANNOUNCED = Message(2, OTHER_TOPIC, b"text", 1, None, 5)
IGNORED = None


def stored(sender: str) -> Any:
    return SimpleNamespace(request=SimpleNamespace(sender=sender))


def swept(name: str, *others: Turn) -> Turns:
    return Turns((Turn("sweep", name), *others))


def topics(*names: str) -> tuple[Turn, ...]:
    return tuple(striped("topic", name) for name in names)


def envelope(topic: Topic) -> Envelope:
    return Envelope(1, topic, b"data", CLIENT, "10.0.0.1", 5, prompt=False)


IRN_CHANGES = (
    Publishing(CLIENT, "10.0.0.1", "call", (envelope(TOPIC),), OTHER_TOPIC),
    Subscribing(OTHER_CLIENT, None, (TOPIC,), lambda _: None),
    Unsubscribing(OTHER_CLIENT, (OTHER_TOPIC,), lambda _: None),
)

Case = tuple[Callable[..., Any], Sequence[object], Turns]

TURNS: dict[str, Case] = {
    # Statements that each decide for themselves, by a condition or by a unique key.
    "AccessStore.add_link": (AccessStore.add_link, (b"digest", 5), NO_TURNS),
    "AccessStore.sign_in": (AccessStore.sign_in, (b"link", b"session", 5, 1), Turns(shared=(ACCESS,))),
    "AccessStore.sign_out": (AccessStore.sign_out, (b"session",), NO_TURNS),
    "AccessStore.sign_out_all": (AccessStore.sign_out_all, (), Turns((ACCESS,))),
    "AccessStore.sweep": (AccessStore.sweep, (1,), swept("console")),
    "DeviceStore.add": (DeviceStore.add, (3, "d1", IGNORED, 1, 5), Turns((Turn("account", "3"),))),
    "DeviceStore.remove": (DeviceStore.remove, (3, "d1"), Turns(shared=(SENDINGS,))),
    "DeviceStore.forget": (DeviceStore.forget, ("d1", "url", "m1"), Turns(shared=(SENDINGS,))),
    "SignInStore.add_nonce": (SignInStore.add_nonce, (IGNORED,), NO_TURNS),
    "SignInStore.sign_in": (SignInStore.sign_in, ("nonce", IGNORED, b"digest", 5, 1), NO_TURNS),
    "SignInStore.sign_out": (SignInStore.sign_out, (b"digest",), NO_TURNS),
    "SignInStore.sweep": (SignInStore.sweep, (1,), swept("sign-ins")),
    "InboxStore.mark_read": (InboxStore.mark_read, (3, (1,), 1, IGNORED), Turns((FIGURES,))),
    "NotifyStore.send": (
        NotifyStore.send,
        (PUBLISHER, IGNORED, IGNORED, 1, IGNORED),
        Turns((PROJECT, SENDINGS), shared=(FIGURES,)),
    ),
    "NotifyStore.mark_all_as_read": (
        NotifyStore.mark_all_as_read,
        (PUBLISHER, 1),
        Turns((PROJECT, FIGURES)),
    ),
    "NotifyStore.sweep": (NotifyStore.sweep, (1, IGNORED), swept("notifications", FIGURES)),
    "MessageStore.retry": (MessageStore.retry, (1, "m1", 1), STORED),
    "MessageStore.drop": (MessageStore.drop, (1, "m1"), STORED),
    "MessageStore.retry_dead": (MessageStore.retry_dead, (None, None, 1, 1), STORED),
    "MessageStore.drop_dead": (MessageStore.drop_dead, (None, None, 1), STORED),
    # Rows by their ids. The counts are figures, which each recount puts right.
    "OutboxStore.delete_delivered": (OutboxStore.delete_delivered, ((), 1, ()), NO_TURNS),
    "OutboxStore.postpone": (OutboxStore.postpone, (IGNORED, 1, "error", 1, None), NO_TURNS),
    "OutboxStore.bury": (OutboxStore.bury, (IGNORED, 1, "error", None), NO_TURNS),
    "OutboxStore.count": (OutboxStore.count, (), NO_TURNS),
    "OutboxStore.sweep": (OutboxStore.sweep, (1, 1, 5), swept("outbox")),
    "ProjectStore.create": (ProjectStore.create, (PROJECT_ID, "Shop", b"digest", 1), NO_TURNS),
    "ProjectStore.delete": (ProjectStore.delete, (PROJECT_ID,), Turns((PROJECT,))),
    "ProjectStore.add_secret": (ProjectStore.add_secret, (PROJECT_ID, b"digest", 1, 5), Turns((PROJECT,))),
    "ProjectStore.remove_secret": (ProjectStore.remove_secret, (PROJECT_ID, 1), Turns((PROJECT,))),
    "ProjectStore._change": (ProjectStore._change, (PROJECT_ID, "sql", "value"), Turns((PROJECT,))),
    "ProjectStore.sweep": (ProjectStore.sweep, (1,), swept("projects", FIGURES)),
    "SubscriptionStore.subscribe": (
        SubscriptionStore.subscribe,
        (PROJECT_ID, (), 1, IGNORED),
        Turns((PROJECT,)),
    ),
    "SubscriptionStore.unsubscribe": (
        SubscriptionStore.unsubscribe,
        (PROJECT_ID, (), 1, IGNORED),
        Turns((PROJECT,)),
    ),
    "NotificationTypeStore.add_type": (
        NotificationTypeStore.add_type,
        (PROJECT_ID, IGNORED, "News", 1, 5),
        Turns((PROJECT,)),
    ),
    "NotificationTypeStore.rename_type": (
        NotificationTypeStore.rename_type,
        (PROJECT_ID, "news", "News"),
        Turns((PROJECT,)),
    ),
    "NotificationTypeStore.remove_type": (
        NotificationTypeStore.remove_type,
        (PROJECT_ID, "news", 1),
        Turns((PROJECT,)),
    ),
    "TopicStore._apply": (
        TopicStore._apply,
        (Changes((SENT_ONCE,), (9,), (SENT_ONCE, ANNOUNCED)), 1, IGNORED, IGNORED),
        Turns((*topics("t1", "t2"), striped("address", "10.0.0.1"))),
    ),
    "TopicStore.sweep": (TopicStore.sweep, (1, 5), swept("topics")),
    "IrnStore._apply": (
        IrnStore._apply,
        (IRN_CHANGES, 0, {(CLIENT, Topic("t3")): [4, 4]}, IGNORED),
        Turns(
            (
                striped("irn-client", CLIENT),
                *topics("t1", "t2"),
                striped("address", "10.0.0.1"),
                striped("irn-client", OTHER_CLIENT),
                *topics("t3"),
            )
        ),
    ),
    "IrnStore.take_id_block": (IrnStore.take_id_block, (), NO_TURNS),
    "IrnStore.sweep": (IrnStore.sweep, (1, 5), swept("irn")),
    "IrnStore.announce": (IrnStore.announce, ([],), NO_TURNS),
    "PushStore.register": (PushStore.register, (SimpleNamespace(topic=TOPIC), 1, 5), Turns(topics("t1"))),
    "PushStore.unregister": (PushStore.unregister, (TOPIC, "url", "webhook"), Turns(topics("t1"))),
    "PushStore.queue": (PushStore.queue, (IGNORED, 1), NO_TURNS),
    "PushStore.sweep": (PushStore.sweep, (1,), swept("push-registrations")),
    "RelayStore.create_session": (RelayStore.create_session, ("s1", 5), NO_TURNS),
    "RelayStore.update_session": (RelayStore.update_session, ("s1", IGNORED, 1, 5), NO_TURNS),
    "RelayStore.delete_session": (RelayStore.delete_session, ("s1", 1), Turns((Turn("session", "s1"),))),
    "RelayStore.add_call": (RelayStore.add_call, (CALL, 1, 5, IGNORED), Turns((Turn("session", "s1"),))),
    # An upsert. A sweeper that deletes the call meanwhile makes its foreign key fail, and it is run again.
    "RelayStore.set_status": (RelayStore.set_status, ("c1", b"payload", 1, 5), NO_TURNS),
    "RelayStore.subscribe": (RelayStore.subscribe, (TOPIC, "webhook", 1, 5, 5), Turns(topics("t1"))),
    "RelayStore.forget_webhook": (RelayStore.forget_webhook, ("s1", "webhook"), NO_TURNS),
    "RelaySweepStore._delete": (RelaySweepStore._delete, ([], "sql", (1,)), swept("relay")),
    "RelaySweepStore.sweep_webhooks": (RelaySweepStore.sweep_webhooks, (1, 5), swept("webhooks")),
    "EveryTable.empty": (EveryTable.empty, (), NO_TURNS),
    "ApprovalStore.add": (ApprovalStore.add, (IGNORED,), NO_TURNS),
    "ApprovalStore.decide": (ApprovalStore.decide, ("a1", IGNORED, 1), NO_TURNS),
    "ApprovalStore.expire_all": (ApprovalStore.expire_all, (1,), NO_TURNS),
    "ApprovalStore.sweep": (ApprovalStore.sweep, (1, 5), swept("approvals")),
    "TransactionStore.reserve": (
        TransactionStore.reserve,
        (REQUEST, 1, None, 0, IGNORED, 1),
        Turns((Turn("wallet", SENDER),)),
    ),
    "TransactionStore.keep": (
        TransactionStore.keep,
        (REQUEST, 1, None, 1),
        Turns((Turn("wallet", SENDER),)),
    ),
    "TransactionStore.accept": (TransactionStore.accept, ("id", 1), NO_TURNS),
    "TransactionStore._write": (TransactionStore._write, ([],), NO_TURNS),
    "TransactionStore.sweep": (TransactionStore.sweep, (1, 5), swept("transactions")),
    "BucketStore.sweep": (BucketStore.sweep, (1,), swept("buckets")),
}

CALLS_WITHOUT_A_STORE = {
    # They save token buckets, by upserts, in SQLite only.
    "assembly/system_routes.py",
    "assembly/storage.py",
    # In PostgreSQL's own tables each transaction is one statement, which decides by itself.
    "storage/postgres/processes.py",
}
"""Transactions that need no turn."""


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


def transactions_of_stores() -> list[str]:
    """The names of all methods of the package that are transactions."""
    return [
        f"{found.name}.{method.name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for found in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(found, ast.ClassDef)
        for method in found.body
        if isinstance(method, ast.FunctionDef) and DECORATORS & set(map(_name, method.decorator_list))
    ]


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.id if isinstance(called, ast.Name) else ""


def test_every_transaction_is_in_the_table() -> None:
    assert sorted(transactions_of_stores()) == sorted(TURNS)


def test_no_other_place_runs_transactions() -> None:
    others = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "database.transaction(" in path.read_text("utf-8")
    }

    assert others == {*CALLS_WITHOUT_A_STORE, "storage/database.py"}


@each_row("name", TURNS)
async def test_a_transaction_names_its_turns(name: str) -> None:
    method, arguments, turns = TURNS[name]
    database = RecordingDatabase()

    await method(SimpleNamespace(database=database), *arguments)

    assert database.turns == turns


async def test_a_sender_that_is_an_operator_names_the_project_too() -> None:
    database = RecordingDatabase()

    await NotifyStore.send(NotifyStore(database), PROJECT_ID, IGNORED, IGNORED, 1, IGNORED)  # type: ignore[arg-type]

    assert database.turns == Turns((PROJECT, SENDINGS), shared=(FIGURES,))


async def test_transactions_that_change_states_name_the_accounts_that_are_known() -> None:
    database = RecordingDatabase()

    await TransactionStore._write(TransactionStore(database), [], {"0x02", "0x01"})  # type: ignore[arg-type]

    assert database.turns == Turns((Turn("wallet", "0x01"), Turn("wallet", "0x02")))


async def test_a_database_with_one_writer_is_given_no_turns() -> None:
    database = RecordingDatabase()
    database.takes_turns = False

    await RelayStore(database).delete_session("s1", 1)  # type: ignore[arg-type]

    assert database.turns is NO_TURNS


def test_a_turn_may_stand_for_a_group_of_things() -> None:
    groups = {striped("topic", f"topic {number}") for number in range(10_000)}

    assert len(groups) == 256
    assert striped("topic", "t1") != striped("address", "t1")
    assert striped("topic", "\ud800") == striped("topic", "\ud800")
