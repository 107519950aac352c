"""Subscribers as lines of text: JSON objects (JSON Lines), or account ids."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import orjson

from bridge_server.admin.projects.subscriber_text import read_subscriber
from bridge_server.cli.operator import one_line
from bridge_server.cli.options import CommandError
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.projects.models import NewSubscription, Subscription

_LONGEST_LINE_BYTES = 65_536
_JSON = b"{"
_ONLY_ACCOUNTS = (
    " The line has an account id and nothing else: of a CSV file, give the column without its header."
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SubscriberEntry:
    """The subscription in one line of a file."""

    line: int
    wanted: NewSubscription


class LineError(CommandError):
    """A line is not valid."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")


def read_entries(
    stream: BinaryIO, on_bytes: Callable[[int], object] = lambda count: None
) -> Iterator[SubscriberEntry]:
    """Read the subscriptions of a file line by line, without empty lines. Raises LineError.

    `on_bytes` is called with the length of each line.
    """
    number = 0
    while line := stream.readline(_LONGEST_LINE_BYTES + 1):
        number += 1
        on_bytes(len(line))
        if len(line) > _LONGEST_LINE_BYTES:
            raise LineError(number, f"is longer than {_LONGEST_LINE_BYTES} bytes")
        text = line.removeprefix(_BYTE_ORDER_MARK).strip() if number == 1 else line.strip()
        if text:
            try:
                yield SubscriberEntry(number, read_subscriber(text))
            except InvalidInputError as error:
                hint = "" if text.startswith(_JSON) else _ONLY_ACCOUNTS
                raise LineError(number, one_line(error) + hint) from error


def write_entry(subscription: Subscription) -> bytes:
    """The line of a subscription."""
    chosen = {} if subscription.follows_all else {"notification_types": subscription.types}
    return orjson.dumps({"account": subscription.account, **chosen}, option=orjson.OPT_APPEND_NEWLINE)
