"""The published clients' spelling: frames to models and back.

Messages to receivers are written anew: they have the protocol's four members, and no text that two parsers
could read differently.
"""

import orjson

from bridge_server.kernel.ids import IdMaker
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.pubsub.queues.errors import FrameNotJsonError, InvalidFrameError
from bridge_server.pubsub.queues.models import Acknowledge, Frame, Publish, Subscribe
from bridge_server.topics.models import TOPIC_WEBHOOK, Topic

TOPIC_MAX_CHARACTERS = 128


def read_frame(text: bytes) -> Frame:
    """Read a client's frame. Raises NotJsonError, InvalidFrameError.

    `silent` is false if it is missing. Only a publication needs a payload.
    """
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FrameNotJsonError(error.msg) from error
    if not isinstance(values, dict):
        raise InvalidFrameError("A frame must be a JSON object: {topic, type, payload, silent}.")
    topic, kind, silent = values.get("topic"), values.get("type"), values.get("silent", False)
    if not isinstance(topic, str) or not 0 < len(topic) <= TOPIC_MAX_CHARACTERS:
        raise InvalidFrameError(f"topic must be a string of 1 to {TOPIC_MAX_CHARACTERS} characters.")
    if not isinstance(silent, bool):
        raise InvalidFrameError("silent must be true or false.")
    if kind == "pub":
        payload = values.get("payload")
        if not isinstance(payload, str):
            raise InvalidFrameError("payload must be a string.")
        return Publish(Topic(topic), payload, silent)
    if kind == "ack":
        return Acknowledge(Topic(topic))
    if kind == "sub":
        return Subscribe(Topic(topic))
    raise InvalidFrameError("type must be pub, sub or ack.")


def write_message(published: Publish) -> bytes:
    """The frame that receivers of a message are sent."""
    topic, payload, silent = published
    return orjson.dumps({"topic": topic, "type": "pub", "payload": payload, "silent": silent})


def notice_of(ids: IdMaker, topic: Topic, address: str | None, webhook: str) -> OutgoingMessage:
    """The notice to a webhook of the topic. It counts to the client address."""
    notice = orjson.dumps({"topic": topic})
    return OutgoingMessage(ids.random_uuid(), webhook, notice, TOPIC_WEBHOOK, client=address, subject=topic)
