"""The kind of event loop that the server prefers, for everything that is measured beside it."""

import asyncio
from importlib.metadata import version

try:
    import uvloop
except ImportError:
    LOOP_NAME = "asyncio"
    new_event_loop = asyncio.new_event_loop
else:
    LOOP_NAME = f"uvloop {version('uvloop')}"
    new_event_loop = uvloop.new_event_loop
