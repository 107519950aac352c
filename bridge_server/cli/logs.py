"""The log: console on a terminal, one JSON object a line otherwise; secrets never reach either."""

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
    """Send this program's log, and that of the libraries under it, to standard error."""
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
    handler.addFilter(calm_about_clients)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("hpack").setLevel(logging.INFO)  # below, it tells requests, and so device tokens
    logging.getLogger("aiosqlite").setLevel(logging.INFO)  # below, it tells each operation, twice


def set_log_level(level: str) -> None:
    """Log from this level on."""
    logging.getLogger().setLevel(level.upper())


def redact(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace values whose names say that they are nobody's business."""
    for name in event:
        if _SECRET.search(name):
            event[name] = _REDACTED
    return event


def calm_about_clients(record: logging.LogRecord) -> bool:
    """What is not HTTP at all is answered 400; it is worth no traceback, and no line above debug.

    Nor is a WebSocket's subprotocol that the server does not have.
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
