"""Forms as browsers send them."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from aiohttp import web

from bridge_server.kernel.errors import InvalidInputError, UnsupportedMediaError

_MOST_FIELDS = 100
_FORM = "application/x-www-form-urlencoded"


async def read_form(request: web.Request) -> Mapping[str, str]:
    """The fields of a form; of several with one name, the last.

    Raises UnsupportedMediaError, InvalidInputError.
    """
    if request.content_type != _FORM:
        raise UnsupportedMediaError("The console takes forms, as its own pages send them.")
    try:
        text = (await request.read()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise InvalidInputError("The form cannot be read.") from error
