"""What a push service answered, read carefully: it may be anything."""

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
    """A status, the JSON object that came with it (empty when none did), and the wait that it asks for.

    `retry_after_seconds` is read where it means "too much" or "not now": 429 and 5xx.
    """

    status: int
    document: Mapping[str, Any]
    retry_after_seconds: float | None = None

    @property
    def taken(self) -> bool:
        """Whether it is a success."""
        return 200 <= self.status < 300


def service_answer(status: int, retry_after: str | None, body: bytes, now_ms: int) -> ServiceAnswer:
    """The answer with its body parsed."""
    asks = retry_after is not None and (status == 429 or status >= 500)
    wait = parse_retry_after(retry_after, now_ms) if asks and retry_after is not None else None
    return ServiceAnswer(status, json_object(body), wait)


async def read_answer(response: aiohttp.ClientResponse, now_ms: int) -> ServiceAnswer:
    """The answer with at most 64 KiB of its body; what is longer is cut, and so is no JSON."""
    body = bytearray()
    await read_bounded(response, body, ANSWER_LIMIT_BYTES)
    return service_answer(response.status, response.headers.get(hdrs.RETRY_AFTER), bytes(body), now_ms)


def json_object(body: bytes) -> Mapping[str, Any]:
    """The JSON object in the bytes, or an empty one when they hold something else."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}
