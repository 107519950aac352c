"""The turns of a transaction of generation 2.x."""

from collections.abc import Iterator, Mapping, Sequence

from bridge_server.pubsub.irn.models import Change, ClientKey, Publishing, Subscribing, Unsubscribing
from bridge_server.storage.database import Turn, Turns
from bridge_server.storage.turns import each_once, striped
from bridge_server.topics.turns import turn_of_topic


def turns_of_changes(
    changes: Sequence[Change], _: int, received: Mapping[ClientKey, Sequence[int]], *__: object
) -> Turns:
    """The topics whose subscribers and waiting messages are read, the clients and addresses whose shares are
    counted, and the messages that may have been delivered to the last of their receivers.
    """
    messages = (striped("irn-message", str(number)) for numbers in received.values() for number in numbers)
    return each_once((*(turn for change in changes for turn in _turns_of(change)), *messages))


def _turns_of(change: Change) -> Iterator[Turn]:
    yield striped("irn-client", change.client)
    match change:
        case Publishing():
            for envelope in change.envelopes:
                yield turn_of_topic(envelope.topic)
            if change.subscribes is not None:
                yield turn_of_topic(change.subscribes)
        case Subscribing() | Unsubscribing():
            for topic in change.topics:
                yield turn_of_topic(topic)
    if not isinstance(change, Unsubscribing) and change.address is not None:
        yield striped("address", change.address)
