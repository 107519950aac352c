"""Reading the bodies of answers, which may be of any length."""

import aiohttp

ANSWER_LIMIT_BYTES = 64 * 1_024
"""The bytes that are read of the answer to a webhook or a push."""


async def read_bounded(response: aiohttp.ClientResponse, body: bytearray, limit_bytes: int) -> None:
    """Append the response's body to `body`, until that has `limit_bytes`.

    A body that is shorter is read to its end, so that its connection can be used again. What came before an
    error is in `body`.
    """
    while len(body) < limit_bytes and (chunk := await response.content.read(limit_bytes - len(body))):
        body += chunk
