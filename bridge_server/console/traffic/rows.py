"""Rows of the list of requests, for the page and for its stream of events."""

from collections.abc import Mapping
from typing import Any

from bridge_server.console.words import seen
from bridge_server.web.exchanges import CLIENT_LEFT, FIRST_FAILURE, with_short_ids

_BRIDGE = "bridge"
_TIME = slice(11, 23)


def row_fields(line: Mapping[str, Any]) -> dict[str, Any]:
    """The texts of a row, of what the admin API answers of a request; its process where there are several."""
    process = {"process": line["process"]} if "process" in line else {}
    return process | {
        "number": line["number"],
        "change": line["change"],
        "at": line["at"],
        "time": line["at"][_TIME],
        "who": line["who"],
        "request": seen(request_text(line)),
        "status": status_text(line),
        "tone": _tone(line),
        "took": _took(line),
        "waits": line["waits"],
        "gist": seen(line["gist"]),
    }


def placed(line: Mapping[str, Any], query: str) -> dict[str, Any]:
    """The row with the name of its place, and the address of its page; `query` asks for the list."""
    process = line.get("process")
    if process is None:
        return {**line, "key": f"{line['number']}", "link": f"{line['number']}{query}"}
    link = f"{line['number']}{query}{'&' if query else '?'}process={process}"
    return {**line, "key": f"{process}-{line['number']}", "link": link}


def request_text(line: Mapping[str, Any]) -> str:
    """Method and path with shortened ids; an arrow before the address if the server sent the request."""
    path = with_short_ids(line["path"])
    return f"→ {path}" if line["who"] == _BRIDGE else f"{line['method']} {path}"


def status_text(line: Mapping[str, Any]) -> str:
    """The status, or a word in its place."""
    status = line["status"]
    if status is None:
        return f"waits {line['waits']:.1f} s"
    return {0: "no answer", CLIENT_LEFT: "client left"}.get(status, str(status))


def has_failed(line: Mapping[str, Any]) -> bool:
    """Whether the request was answered with an error, or had no answer."""
    status = line["status"]
    return status is not None and (status == 0 or status >= FIRST_FAILURE)


def _tone(line: Mapping[str, Any]) -> str:
    if line["status"] is None:
        return "waits"
    return "bad" if has_failed(line) else "good"


def _took(line: Mapping[str, Any]) -> str:
    if line["status"] is None:
        return ""
    return f"waited {line['waited']:.1f} s" if line["waited"] else f"{line['milliseconds']:.0f} ms"
