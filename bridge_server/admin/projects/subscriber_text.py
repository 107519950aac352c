"""A subscriber in a line of text: an account id, or a JSON object with the types too (JSON Lines)."""

from typing import Any

from bridge_server.admin.projects.wire import read_account
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.projects.models import NewSubscription
from bridge_server.projects.wire import read_wanted_types
from bridge_server.web.json_body import parse_object


def read_subscriber(line: bytes) -> NewSubscription:
    """The subscription in a line. Raises InvalidInputError."""
    if not line.startswith(b"{"):
        return NewSubscription(read_account(line.decode(errors="replace")), None)
    values = parse_object(line).values
    return NewSubscription(read_account(_account(values)), read_wanted_types(values))


def _account(values: dict[str, Any]) -> str:
    account = values.get("account")
    if not isinstance(account, str):
        raise InvalidInputError("The account is missing or is not a string.")
    return account
