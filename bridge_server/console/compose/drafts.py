"""The form of a notification: its fields as a request of the admin API, and every fault at its field."""

from collections.abc import Mapping, Sequence
from typing import Any

from bridge_server.admin.notifications.wire import read_notify
from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.notify.models import AudienceRequest
from bridge_server.notify.text import one_line
from bridge_server.notify.wire import NOTIFY_MAX_ACCOUNTS, TEXT_MAX_CHARACTERS, TITLE_MAX_CHARACTERS
from bridge_server.web.json_body import JsonObject

MOST_CHARACTERS = {"title": TITLE_MAX_CHARACTERS, "body": TEXT_MAX_CHARACTERS, "url": TEXT_MAX_CHARACTERS}

_FIELDS = ("type", "title", "body", "url", "audience", "audience_type", "accounts", "notification_id")
_EXPECTED_ACCOUNTS = f"must have 1 to {NOTIFY_MAX_ACCOUNTS} accounts, one in a line"


def read_draft(form: Mapping[str, str]) -> AudienceRequest:
    """Read the notification and its audience. The places of InvalidInputError are fields of the form."""
    lines = _lines(form)
    url = form.get("url", "").strip()
    document = {
        "notification": {
            **{name: form.get(name, "") for name in ("type", "title", "body")},
            **({"url": url} if url else {}),
        },
        "notification_id": form.get("notification_id", "").strip(),
        "audience": _audience(form, [account for _, account in lines]),
    }
    try:
        return read_notify(JsonObject(document, None), is_dry_run=False)
    except InvalidInputError as error:
        raise at_fields(error, lines) from error


def at_fields(error: InvalidInputError, lines: Sequence[tuple[int, str]] = ()) -> InvalidInputError:
    """The error with the places of the form instead of the API's. `lines` are the lines of the accounts."""
    faults = [_at_field(fault, lines) for fault in error.faults]
    return InvalidInputError("Nothing was sent: some fields need another look.", faults)


def draft_fields(values: Mapping[str, str]) -> dict[str, Any]:
    """The values of the form's fields, and the numbers of characters that count against the limits."""
    draft = {name: values.get(name, "") for name in _FIELDS}
    return {
        "draft": {**draft, "audience": draft["audience"] or "accounts"},
        "lengths": {name: len(one_line(draft[name])) for name in MOST_CHARACTERS},
        "most_characters": MOST_CHARACTERS,
        "most_accounts": NOTIFY_MAX_ACCOUNTS,
    }


def _lines(form: Mapping[str, str]) -> list[tuple[int, str]]:
    lines = enumerate(form.get("accounts", "").splitlines(), 1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


def _audience(form: Mapping[str, str], accounts: list[str]) -> Any:
    match form.get("audience"):
        case "all":
            return "all"
        case "type":
            return {"type": form.get("audience_type", "")}
    return {"accounts": accounts}


def _at_field(fault: Fault, lines: Sequence[tuple[int, str]]) -> Fault:
    match fault.pointer.split("/")[1:]:
        case ["audience", "accounts", number]:
            return Fault("#/accounts", f"line {lines[int(number)][0]} {fault.detail}")
        case ["audience", "type"]:
            return Fault("#/audience_type", fault.detail)
        case ["audience", *_]:
            return Fault("#/accounts", _EXPECTED_ACCOUNTS)
        case [*_, name]:
            return Fault(f"#/{name}", fault.detail)
    return fault
