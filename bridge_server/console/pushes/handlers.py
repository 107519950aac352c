"""The page of pushes: messages for devices, a preview and a test of a push."""

from bridge_server.admin.outbox.gathering import AttemptsEverywhere
from bridge_server.admin.outbox.service import OutboxDesk
from bridge_server.admin.pushes import wire
from bridge_server.admin.pushes.service import PushDesk
from bridge_server.console.fields import text_fields
from bridge_server.console.models import Asked, ConsolePage, Done, NavigationGroup, PagePath, View
from bridge_server.console.outbox.handlers import OutboxViews
from bridge_server.outbox.stored import MessageKind


class PushesPage:
    """The messages for devices, a preview, and a test."""

    def __init__(self, desk: OutboxDesk, attempts: AttemptsEverywhere, pushes: PushDesk) -> None:
        self._views = OutboxViews(desk, attempts, MessageKind.PUSH, "/pushes")
        self._pushes = pushes

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        paths = (*self._views.paths(self.test), PagePath("/pushes/preview", self.show_preview))
        return ConsolePage("pushes", "Pushes", NavigationGroup.OUT, paths)

    async def show_preview(self, asked: Asked) -> View:
        """A push about a new request, in a client's language."""
        peer_name, language = wire.read_preview(asked.query)
        preview = wire.preview_fields(self._pushes.preview(peer_name, language))
        fields = {"preview": preview, "peer_name": peer_name, "language": language}
        return View("pushes/preview.html", fields)

    async def test(self, asked: Asked) -> Done:
        topic = wire.read_topic(text_fields(asked.form, "topic"))
        tested = wire.tested_fields(await self._pushes.test(topic))
        if tested["delivered"]:
            return self._views.done(f"The push was taken after {tested['milliseconds']} ms.")
        return self._views.done(f"The push was not taken: {tested['failure']}.", is_good=False)
