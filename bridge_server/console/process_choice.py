"""The process whose request or attempt a page shows, where several share a database."""

import re

from bridge_server.console.models import Asked

_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)


def chosen_process(asked: Asked) -> int | None:
    """The number of the process in the query; None: that which answers."""
    text = asked.query.get("process", "")
    return int(text) if _NUMBER.fullmatch(text) else None
