"""URLs whose receivers must be public, whatever the settings allow."""

from bridge_server.outbox.channels import PUBLIC_SCHEMES, PublicSender, marked_public, private_address
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage, unmarked
from tests.outbox.running import HOOK
from tests.support.rows import each_row


def message(url: str) -> OutgoingMessage:
    return OutgoingMessage("message-1", url, b"{}", HOOK, subject="a session")


@each_row("url", ["https://example.com/hook?a=b", "http://example.com:9000/"])
def test_the_mark_changes_the_sender_and_nothing_else(url: str) -> None:
    marked = message(marked_public(url))

    assert marked.channel in PUBLIC_SCHEMES
    assert marked.destination == message(url).destination
    assert marked.queue == message(url).queue
    assert unmarked(marked.url) == url


async def test_the_receiver_is_called_by_its_own_url() -> None:
    sent: list[OutgoingMessage] = []

    class Keeping:
        async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
            sent.append(message)
            return Outcome(Verdict.DELIVERED)

    outcome = await PublicSender(Keeping()).send(message(marked_public("https://example.com/hook")), 0)

    assert outcome.verdict is Verdict.DELIVERED
    assert sent == [message("https://example.com/hook")]


@each_row(
    "url",
    [
        "https://example.com/",
        "http://8.8.8.8/",
        "http://[2606:4700::1]:8080/",
        "https://intranet.example:8443/",
    ],
)
def test_a_url_that_may_be_public_is_not_refused(url: str) -> None:
    assert private_address(url) is None


@each_row(
    ("url", "reason"),
    [
        ("http://10.0.0.1/", "private"),
        ("http://LOCALHOST:80/", "own machine"),
        ("http://[::ffff:10.0.0.1]/", "private"),
        ("http://[fe80::1]/", "link-local"),
        ("http://8.8.8.8:22/", "port 22"),
        ("http://host:99999/", "cannot be read"),
    ],
)
def test_the_reason_names_the_private_part_of_a_url(url: str, reason: str) -> None:
    assert reason in (private_address(url) or "")
