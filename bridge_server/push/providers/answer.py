"""Answers of push services, read without trusting their size, type or content."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from aiohttp import hdrs

from bridge_server.kernel.retry_after import parse_retry_after
from bridge_server.outgoing.bounded_body import ANSWER_LIMIT_BYTES, read_bounded


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """The status of an answer, the JSON object in its body (else empty), and its Retry-After.

    `retry_after_seconds` is read from the statuses 429 and 5xx only.
    """

    status: int
    document: Mapping[str, Any]
    retry_after_seconds: float | None = None

    @property
    def taken(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


def service_answer(status: int, retry_after: str | None, body: bytes, now_ms: int) -> ServiceAnswer:
    """Make an answer and parse its body."""
    asks = retry_after is not None and (status == 429 or status >= 500)
    wait = parse_retry_after(retry_after, now_ms) if asks and retry_after is not None else None
    return ServiceAnswer(status, json_object(body), wait)


async def read_answer(response: aiohttp.ClientResponse, now_ms: int) -> ServiceAnswer:
    """Read an answer. A body of more than 64 KiB is cut, and is then not valid JSON."""
    body = bytearray()
    await read_bounded(response, body, ANSWER_LIMIT_BYTES)
    return service_answer(response.status, response.headers.get(hdrs.RETRY_AFTER), bytes(body), now_ms)


def json_object(body: bytes) -> Mapping[str, Any]:
    """The JSON object in the bytes; empty if they hold anything else."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}
