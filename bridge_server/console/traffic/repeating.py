"""A recorded request as a line of curl, as Python, and as JavaScript.

The texts are ASCII: whatever a client sent, a terminal gets no control character from the clipboard.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MADE_ANEW = frozenset(
    {"accept-encoding", "connection", "content-length", "cookie", "host", "keep-alive", "transfer-encoding"}
)
_OF_BROWSERS = ("sec-", "proxy-")
_HIDDEN = "…"
_TOKEN = "Bearer TOKEN"  # noqa: S105 - the place of a token
_BRIDGE = "bridge"
_BODILESS = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Repeat:
    """The request in three languages. `note` says what has to be filled in."""

    curl: str
    python: str
    javascript: str
    note: str


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: str


def repeat_of(fields: Mapping[str, Any], bridge_url: str) -> Repeat | None:
    """The request as the admin API answers it, sent to this bridge once more.

    None if it was not sent to the bridge, or if its body is not kept as it was.
    """
    sent = fields.get("request")
    body = "" if sent is None else sent["body"]
    is_whole = fields["method"] in _BODILESS if sent is None else len(body.encode()) == sent["bytes"]
    if fields["who"] == _BRIDGE or not is_whole:
        return None
    headers = {} if sent is None else _headers(sent["headers"])
    request = _Request(fields["method"], bridge_url + fields["path"], headers, body)
    return Repeat(_curl(request), _python(request), _javascript(request), _note(request))


def _headers(recorded: Mapping[str, str]) -> dict[str, str]:
    return {
        name: _TOKEN if value == _HIDDEN else value
        for name, value in recorded.items()
        if name.lower() not in _MADE_ANEW and not name.lower().startswith(_OF_BROWSERS)
    }


def _note(request: _Request) -> str:
    notes = []
    if _TOKEN in request.headers.values():
        notes.append("Put the token in the place of TOKEN.")
    if _HIDDEN in request.url:
        notes.append("Ids are shortened: put the whole ones in their places.")
    return " ".join(notes)


def _curl(request: _Request) -> str:
    lines = [f"curl -gisS -X {_shell(request.method)} {_shell(request.url)}"]
    lines += [f"-H {_shell(f'{name}: {value}')}" for name, value in request.headers.items()]
    if request.body:
        if not any(name.lower() == "content-type" for name in request.headers):
            lines.append("-H 'Content-Type:'")
        lines.append(f"--data-raw {_shell(request.body)}")
    return " \\\n  ".join(lines)


def _shell(text: str) -> str:
    """A word of a shell; bytes that are not printable ASCII are escaped as bash and zsh read them."""
    if text.isascii() and text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text.encode(errors="replace"))) + "'"


def _escaped(byte: int) -> str:
    character = chr(byte)
    if character in "\\'":
        return f"\\{character}"
    return character if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"


def _python(request: _Request) -> str:
    body = f"    data={request.body!a}.encode(),\n" if request.body else ""
    return (
        "import urllib.error\n"
        "import urllib.request\n\n"
        "request = urllib.request.Request(\n"
        f"    {request.url!a},\n"
        f"    method={request.method!a},\n"
        f"    headers={dict(request.headers)!a},\n"
        f"{body})\n"
        "try:\n"
        "    answer = urllib.request.urlopen(request)\n"
        "except urllib.error.HTTPError as error:\n"
        "    answer = error\n"
        "print(answer.status, answer.read().decode())\n"
    )


def _javascript(request: _Request) -> str:
    options: dict[str, Any] = {"method": request.method, "headers": dict(request.headers)}
    if request.body:
        options["body"] = request.body
    return (
        f"const answer = await fetch({json.dumps(request.url)}, {json.dumps(options, indent=2)})\n"
        "console.log(answer.status, await answer.text())\n"
    )
