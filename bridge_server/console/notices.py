"""Messages that the page after a change shows once. They are kept in memory: some of them show a secret."""

from collections import OrderedDict
from collections.abc import Callable

from bridge_server.console.models import ConsoleSession, Done
from bridge_server.kernel.secrets import new_secret

NOTICE = "notice"
"""The query parameter that names a message."""

_MOST_NOTICES = 100


class OneTimeNotices:
    """The messages that nobody has seen yet; the oldest go when there are too many."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._kept: OrderedDict[tuple[bytes, str], Done] = OrderedDict()

    def keep(self, session: ConsoleSession, done: Done) -> str:
        """Keep the message of a change; returns the name under which its page finds it."""
        name = new_secret(self._random_bytes)
        self._kept[session.digest, name] = done
        while len(self._kept) > _MOST_NOTICES:
            self._kept.popitem(last=False)
        return name

    def take(self, session: ConsoleSession, name: str) -> Done | None:
        """The message of this name, once; None if there is none, or it is another session's."""
        return self._kept.pop((session.digest, name), None)
