"""A test of a push to a registered client, and the preview of a push."""

from dataclasses import dataclass
from time import perf_counter

from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.push.errors import ProviderFailedError, TokenDeadError
from bridge_server.push.languages import match_language, request_text, shown_name
from bridge_server.push.service import PushServer
from bridge_server.push.texts import RIGHT_TO_LEFT
from bridge_server.topics.models import Topic


@dataclass(frozen=True, slots=True)
class TestedPush:
    """The outcome of a test and how long it took."""

    outcome: Outcome
    milliseconds: float


@dataclass(frozen=True, slots=True)
class PushPreview:
    """The texts of a push about a new request, and the language that was found for the client's."""

    title: str
    body: str
    language: str
    is_right_to_left: bool


class PushDesk:
    """Tests and previews pushes."""

    def __init__(self, server: PushServer) -> None:
        self._server = server

    async def test(self, topic: str) -> TestedPush:
        """Push to the topic's client now. Raises TopicNotFoundError, TooManyPushesError."""
        started = perf_counter()
        try:
            outcome = await self._server.push(Topic(topic), None)
        except ProviderFailedError as error:
            outcome = Outcome(Verdict.FAILED, error.reason)
        except TokenDeadError as error:
            outcome = Outcome(Verdict.GONE, error.detail)
        return TestedPush(outcome, (perf_counter() - started) * 1_000)

    def preview(self, peer_name: str, language: str) -> PushPreview:
        """The text that the phone of a client with this language shows about a peer of this name."""
        text, found = request_text(language, peer_name), match_language(language)
        return PushPreview(shown_name(peer_name) or text, text, found, found in RIGHT_TO_LEFT)
