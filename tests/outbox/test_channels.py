"""Which sender takes a message, and what the log shows of one."""

from structlog.testing import capture_logs

from bridge_server.logs import redact
from bridge_server.outbox.channels import Channels, LogSender
from bridge_server.outbox.models import Outcome, OutgoingMessage, Verdict

NOTICE = OutgoingMessage("device.1", "log:inbox", b'{"title":"Hello"}')
WEBHOOK = OutgoingMessage("message-1", "https://receiver.example/hook", b"{}")


class RememberingSender:
    """Takes everything."""

    def __init__(self) -> None:
        self.taken: list[OutgoingMessage] = []

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        self.taken.append(message)
        return Outcome(Verdict.DELIVERED)


async def test_a_message_for_the_log_can_be_read_there() -> None:
    with capture_logs() as lines:
        outcome = await LogSender().send(NOTICE, now_ms=0)

    (line,) = lines
    assert outcome.verdict is Verdict.DELIVERED
    assert redact(None, "", line)["notice"] == '{"title":"Hello"}'
    assert line["message_id"] == "device.1"


async def test_each_message_goes_to_the_sender_that_serves_it() -> None:
    to_log, otherwise = RememberingSender(), RememberingSender()
    channels = Channels({"log": to_log}, otherwise=otherwise)

    for message in (NOTICE, WEBHOOK):
        await channels.send(message, now_ms=0)

    assert (to_log.taken, otherwise.taken) == ([NOTICE], [WEBHOOK])
