"""The transcript: each request and its answer, with ids and ciphertext replaced by fixed names."""

import re
from dataclasses import dataclass
from typing import Any

import click
import orjson

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
_BEFORE_A_SESSION = r'(?:(?<=/session/)|(?<=wc-)|(?<="sessionId":")|(?<="topic":"))'
_STABLE = (
    (re.compile(_BEFORE_A_SESSION + _UUID), "SESSION"),
    (re.compile(_UUID), "CALL"),
    (re.compile(r'"expires":\d+'), '"expires":1800000000000'),
    (re.compile(r"http://127\.0\.0\.1:\d+/hook"), "https://push.example/hook"),
    (re.compile(r"http://127\.0\.0\.1:\d+/push"), "https://device.example/push"),
    (re.compile(r"http%3A%2F%2F(127\.0\.0\.1|localhost)%3A\d+"), "http%3A%2F%2F127.0.0.1%3A8080"),
    (re.compile(r"symKey=\S+"), "symKey=..."),
    (re.compile(r"http://(127\.0\.0\.1|localhost):\d+"), "http://127.0.0.1:8080"),
    (re.compile(r'"(secret|token|nonce|signature|message)":"[^"]{16,}"'), r'"\1":"..."'),
    (re.compile(r"0x[0-9a-f]{200,}"), "MESSAGE"),
    (re.compile(r"0x[0-9a-f]{130}"), "SIGNATURE"),
    (re.compile(r"0x[0-9a-f]{64}"), "HASH"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "PROJECT"),
    (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z"), "2027-01-15T08:00:00.000Z"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "2027-01-15"),
)

_LONG = ("by_day",)
"""Members whose value is a list of a month."""


@dataclass(frozen=True, slots=True)
class Printed:
    """One request and its answer."""

    who: str
    request: str
    body: Any
    status: int
    answer: Any = None


def say(text: str) -> None:
    """Print a sentence between the requests."""
    click.echo(f"\n# {text}")


def show(exchange: Printed) -> Any:
    """Print an exchange with fixed names for changing values; returns the answer."""
    line(exchange.who, exchange.request, exchange.body)
    line("", str(exchange.status), exchange.answer)
    return exchange.answer


def line(label: str, text: str, value: Any = None) -> None:
    """Print one line of the transcript."""
    printed = f"{label:<7} {text}" + (f" {orjson.dumps(_shortened(value)).decode()}" if value else "")
    for pattern, name in _STABLE:
        printed = pattern.sub(name, printed)
    click.echo(printed)


def _shortened(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"data", "hmac", "iv"}:
        return "..."
    if isinstance(value, dict):
        return {name: ["..."] if name in _LONG else _shortened(inner) for name, inner in value.items()}
    return value
