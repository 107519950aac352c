"""Topics of generation 2.x: listed with their sockets and the messages that wait on them."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal, NotRequired, TypeAlias

from aiohttp import web

from bridge_server.admin.other_processes import (
    PROCESS,
    Fields,
    Neighbours,
    ProcessAnswer,
    Reply,
    WantedProcess,
    answers_of,
    listed_processes,
    of_all,
    wanted_process,
)
from bridge_server.admin.rows import AdminRows, read_place, shortened, wanted_page
from bridge_server.kernel.instants import rfc3339
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub.v2_list import ListedTopic, TopicList, TopicPlace
from bridge_server.web.routes import Route
from bridge_server.web.shapes import Count, Moment, NextPage, TypedDict, one_of, page_parameters, text
from bridge_server.web.traffic import TrafficLog

TopicKind: TypeAlias = Literal["pairing", "session"]

_PATH = "/admin/topics"
_PLACE = re.compile(r"([0-9]{1,16})-([0-9]{1,9})", re.ASCII)
_PUBLISHED = re.compile(r"tag ([0-9]{1,6}), [0-9]+ B to topic ([0-9a-fA-F]{8}…)")
_PAIRING_TAGS = frozenset((*range(1000, 1006), 1100, 1101, *range(1116, 1122)))
_SESSION_TAGS = range(1102, 1116)


class ListedTopicAnswer(TypedDict):
    """A topic. Its kind is known while its last publication is in the record of requests."""

    topic: Annotated[str, text("9f2c6a01…")]
    kind: Annotated[str, one_of("pairing", "session")] | None
    subscribers: Count
    sockets: Count
    messages_waiting: Count
    bytes_waiting: Count
    expires_at: Moment


class ListedTopicsAnswer(TypedDict):
    """A page of topics; topics whose clients have connected last come first."""

    topics: list[ListedTopicAnswer]
    next: NextPage | None
    processes: NotRequired[list[ProcessAnswer]]


class TopicAdmin:
    """Lists topics of generation 2.x."""

    def __init__(
        self,
        topics: TopicList,
        sockets_on: Callable[[Topic], int],
        traffic: TrafficLog | None,
        neighbours: Neighbours | None,
    ) -> None:
        self._topics = topics
        self._sockets_on = sockets_on
        self._traffic = traffic
        self._neighbours = neighbours

    async def page(self, after: str, limit: int, process: WantedProcess = None) -> ListedTopicsAnswer:
        """A page of topics. Raises InvalidInputError."""
        shown = read_place(after, _PLACE)
        place = TopicPlace() if shown is None else TopicPlace(int(shown[1]), int(shown[2]))

        async def own() -> ListedTopicsAnswer:
            found, following = await self._topics.page(place, limit)
            recorded = () if self._traffic is None else self._traffic.answered_after(0)
            kinds = kinds_of(each.exchange.summary for each in recorded)
            return {
                "topics": [self._fields(each, kinds) for each in found],
                "next": None if following is None else f"{following.latest_ms}-{following.skipped}",
            }

        question = (_PATH, {"after": after, "limit": str(limit)})
        return await of_all(self._neighbours, process, question, own, merged_topics)

    async def handle_page(self, request: web.Request) -> ListedTopicsAnswer:
        """Topics that clients of generation 2.x are subscribed to, connected or not. Topics are shortened."""
        return await self.page(*wanted_page(request), wanted_process(request, self._neighbours))

    def _fields(self, listed: ListedTopic, kinds: dict[str, TopicKind]) -> ListedTopicAnswer:
        shown = shortened(listed.topic)
        return {
            "topic": shown,
            "kind": kinds.get(shown),
            "subscribers": listed.subscribers,
            "sockets": self._sockets_on(listed.topic),
            "messages_waiting": listed.messages,
            "bytes_waiting": listed.message_bytes,
            "expires_at": rfc3339(listed.expires_at_ms),
        }


def kinds_of(summaries: Iterable[str]) -> dict[str, TopicKind]:
    """The kinds of shortened topics, by the tags in these summaries, newest first. The tags are those of Sign
    2.0 (https://specs.walletconnect.com/2.0/specs/clients/sign/rpc-methods).
    """
    kinds: dict[str, TopicKind] = {}
    for found in filter(None, map(_PUBLISHED.search, summaries)):
        tag, topic = int(found[1]), found[2]
        if tag in _SESSION_TAGS or tag in _PAIRING_TAGS:
            kinds.setdefault(topic, "session" if tag in _SESSION_TAGS else "pairing")
    return kinds


def merged_topics(own_number: int, own: Fields, replies: Sequence[Reply]) -> Fields:
    """A page of topics with the sockets of all processes."""
    everywhere: dict[tuple[str, str], list[Fields]] = {}
    for page in answers_of(own, replies):
        for each in page["topics"]:
            everywhere.setdefault((each["topic"], each["expires_at"]), []).append(each)
    topics = []
    for each in own["topics"]:
        seen = everywhere[each["topic"], each["expires_at"]]
        kind = next((one["kind"] for one in seen if one["kind"]), None)
        topics.append({**each, "kind": kind, "sockets": sum(one["sockets"] for one in seen)})
    return {**own, "topics": topics, "processes": listed_processes(own_number, replies)}


def topic_routes(topics: TopicAdmin, rows: AdminRows) -> tuple[Route, ...]:
    """The list."""
    parameters, read = (PROCESS, *page_parameters()), rows.under("Observation").read
    row = read(_PATH, "topics", topics.handle_page, "List topics of 2.x", "A page.", parameters=parameters)
    return (row,)
