"""Topics of generation 2.x as an operator lists them: read from the database when somebody looks."""

from collections.abc import Sequence
from typing import NamedTuple

from bridge_server.kernel.clock import Clock
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub.v2_store import SHARE_OF_TOPIC
from bridge_server.storage.database import Database, json_array

# A topic stands where its subscription that expires last stands.
LISTED = """
SELECT topic, expires_at_ms FROM irn_subscriptions AS listed
WHERE expires_at_ms > ? AND expires_at_ms <= ? AND NOT EXISTS
    (SELECT 1 FROM irn_subscriptions AS other WHERE other.topic = listed.topic
        AND (other.expires_at_ms, other.client) > (listed.expires_at_ms, listed.client))
ORDER BY expires_at_ms DESC, topic LIMIT ? OFFSET ?
"""
COUNT_SUBSCRIBERS = """
SELECT topic, count(*) FROM irn_subscriptions
WHERE topic IN (SELECT value FROM json_each(?)) AND expires_at_ms > ? GROUP BY topic
"""
LATEST_MS = 2**53
"""No subscription expires later."""


class ListedTopic(NamedTuple):
    """A topic with its subscribed clients, and the messages that somebody has not received yet."""

    topic: Topic
    expires_at_ms: int
    """When the last subscription expires, unless its client connects again."""
    subscribers: int
    messages: int
    message_bytes: int


class TopicPlace(NamedTuple):
    """A place in the list: topics that expire up to then, without the first `skipped` of them."""

    latest_ms: int = LATEST_MS
    skipped: int = 0


class TopicList:
    """Topics that clients are subscribed to; of a subscription that is renewed, the topic comes first."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def page(self, place: TopicPlace, limit: int) -> tuple[Sequence[ListedTopic], TopicPlace | None]:
        """The topics from this place on, and the place of the next page; None if there is none."""
        now_ms = self._clock.now_ms()
        rows = await self._database.read(LISTED, (now_ms, place.latest_ms, limit + 1, place.skipped))
        listed = [(Topic(topic), int(expires_at_ms)) for topic, expires_at_ms in rows[:limit]]
        topics = json_array([topic for topic, _ in listed])
        subscribers: dict[Topic, int] = dict(await self._database.read(COUNT_SUBSCRIBERS, (topics, now_ms)))
        stored = {
            topic: share for topic, *share in await self._database.read(SHARE_OF_TOPIC, (topics, now_ms))
        }
        page = [
            ListedTopic(topic, expires_at_ms, subscribers.get(topic, 0), *map(int, stored.get(topic, (0, 0))))
            for topic, expires_at_ms in listed
        ]
        return page, _place_after(place, page) if len(rows) > limit else None


def _place_after(place: TopicPlace, page: Sequence[ListedTopic]) -> TopicPlace:
    last_ms = page[-1].expires_at_ms
    equal = sum(each.expires_at_ms == last_ms for each in page)
    return TopicPlace(last_ms, equal + (place.skipped if last_ms == place.latest_ms else 0))
