"""The page of webhooks: messages that are owed to them, and a test."""

from bridge_server.admin.outbox.gathering import AttemptsEverywhere
from bridge_server.admin.outbox.service import OutboxDesk
from bridge_server.admin.webhooks import wire
from bridge_server.admin.webhooks.service import WebhookTests
from bridge_server.console.fields import text_fields
from bridge_server.console.models import Asked, ConsolePage, Done, NavigationGroup
from bridge_server.console.outbox.handlers import OutboxViews
from bridge_server.outbox.stored import MessageKind


class WebhooksPage:
    """The messages for webhooks, and a test."""

    def __init__(self, desk: OutboxDesk, attempts: AttemptsEverywhere, tests: WebhookTests) -> None:
        self._views = OutboxViews(desk, attempts, MessageKind.WEBHOOK, "/webhooks")
        self._tests = tests

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        return ConsolePage("webhooks", "Webhooks", NavigationGroup.OUT, self._views.paths(self.test))

    async def test(self, asked: Asked) -> Done:
        url = wire.read_url(text_fields(asked.form, "url"))
        tested = wire.tested_fields(await self._tests.send(url))
        if tested["delivered"]:
            answer = f"answered {tested['status']} after {tested['milliseconds']} ms"
            return self._views.done(f"The receiver took the test: it {answer}.")
        return self._views.done(f"The receiver did not take the test: {tested['failure']}.", is_good=False)
