"""Short texts for failed requests. They never contain the URL, because it can hold secrets."""

import os

import aiohttp
from aiohttp import client_exceptions

from bridge_server.outgoing.guard import AddressRefusedError

_REASON_LIMIT = 200


def refusal(error: Exception) -> str | None:
    """The reason why this server will never make the request; None if a retry may succeed."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, AddressRefusedError):
        return error.os_error.reason
    if isinstance(error, aiohttp.InvalidURL):
        return "the URL cannot be used"
    return None


def failure(error: Exception) -> str:
    """The reason why an attempt failed, in at most 200 characters."""
    return _failure(error)[:_REASON_LIMIT]


def _failure(error: Exception) -> str:
    match error:
        case client_exceptions.ClientConnectorCertificateError(certificate_error=cause):
            return f"the certificate is not valid: {getattr(cause, 'verify_message', cause)}"
        case client_exceptions.ClientConnectorSSLError():
            return f"no TLS connection: {getattr(error.os_error, 'reason', None) or error.strerror}"
        case aiohttp.ClientConnectorDNSError():
            return f"the name does not resolve: {error.strerror or error.os_error}"
        case aiohttp.ClientConnectorError():
            return f"no connection: {error.strerror or error.os_error}"
        case aiohttp.ConnectionTimeoutError():
            return "no connection in time"
        case TimeoutError():
            return "no answer in time"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed before an answer"
        case aiohttp.ClientResponseError():
            return "the answer is not valid HTTP"
        case OSError():
            return f"the connection broke: {_break(error)}"
        case _:
            return f"the request failed: {type(error).__name__}"


def _break(error: OSError) -> str:
    if isinstance(error, aiohttp.ClientOSError):  # its own text can contain the URL
        return os.strerror(error.errno) if error.errno else type(error).__name__
    return error.strerror or type(error).__name__
