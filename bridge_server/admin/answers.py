"""Answers of the admin API, whose fields the console shows as well."""

from typing import Any

import orjson
from aiohttp import web

from bridge_server.web.answers import json_answer


def fields_answer(fields: dict[str, Any]) -> web.Response:
    """200 with these fields as JSON."""
    return json_answer(orjson.dumps(fields))
