"""The log: formatted on a terminal, one JSON object per line elsewhere. Secrets are redacted in both."""

import logging
import re
import sys
from typing import Any, Literal

import orjson
import structlog
from aiohttp.http_exceptions import HttpProcessingError
from structlog.typing import EventDict, Processor, WrappedLogger

_SECRET = re.compile(r"secret|token|password|passphrase|private|authorization|payload|body", re.IGNORECASE)
_REDACTED = "[redacted]"


def configure_logs(level: str, form: Literal["auto", "console", "json"]) -> None:
    """Send the log of this program and of its libraries to standard error."""
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        redact,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_rendering(console))
    )
    handler.addFilter(is_not_a_client_fault)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("hpack").setLevel(logging.INFO)  # its debug log has requests with device tokens
    logging.getLogger("aiosqlite").setLevel(logging.INFO)  # its debug log has every operation twice


def set_log_level(level: str) -> None:
    """Log events of this level and above."""
    logging.getLogger().setLevel(level.upper())


def redact(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace the values of fields whose names suggest a secret or a payload."""
    for name in event:
        if _SECRET.search(name):
            event[name] = _REDACTED
    return event


def is_not_a_client_fault(record: logging.LogRecord) -> bool:
    """Filter out what only a client did wrong, unless the level is debug.

    Bytes that are not HTTP are answered 400 and need no traceback; a WebSocket subprotocol that the server
    does not have needs no warning.
    """
    error = record.exc_info[1] if record.exc_info else None
    is_bad_http = record.name == "aiohttp.server" and isinstance(error, HttpProcessingError)
    if is_bad_http or record.name == "aiohttp.websocket":
        return logging.getLogger().isEnabledFor(logging.DEBUG)
    return True


def _rendering(console: bool) -> list[Processor]:
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if console:
        return [strip, structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    return [strip, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_dumps)]


def _dumps(value: Any, **_: Any) -> str:
    return orjson.dumps(value, default=str).decode()
