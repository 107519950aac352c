"""The turns of transactions on topics: their webhooks, and the messages that wait on them."""

from bridge_server.storage.database import Turn, Turns
from bridge_server.storage.turns import striped


def turn_of_topic(topic: str) -> Turn:
    """The topic, which shares its turn with others: one transaction can concern a thousand topics."""
    return striped("topic", topic)


def of_topic(topic: str, *_: object, **__: object) -> Turns:
    """The turns of a transaction on one topic, which is its first argument."""
    return Turns((turn_of_topic(topic),))
