"""The shapes of answers, and functions that send them. An answer is a TypedDict: the type checker holds what
is sent against what is described.
"""

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import orjson
from aiohttp import web
from pydantic import WithJsonSchema

from bridge_server.web.answers import json_answer
from bridge_server.web.routes import DescribedAnswer, Handler, Parameter

__all__ = ["TypedDict"]


def text(example: str, **rules: Any) -> WithJsonSchema:
    """The schema of a string, with an example."""
    return WithJsonSchema({"type": "string", "examples": [example], **rules})


def count(example: int, **rules: Any) -> WithJsonSchema:
    """The schema of a whole number that is not negative, with an example."""
    return WithJsonSchema({"type": "integer", "minimum": 0, "examples": [example], **rules})


def number(example: float, **rules: Any) -> WithJsonSchema:
    """The schema of a number, with an example."""
    return WithJsonSchema({"type": "number", "examples": [example], **rules})


def one_of(*words: str) -> WithJsonSchema:
    """The schema of a string that is one of these words."""
    return WithJsonSchema({"enum": list(words), "type": "string"})


Moment: TypeAlias = Annotated[str, text("2027-01-15T08:00:00.000Z", format="date-time")]
Count: TypeAlias = Annotated[int, count(3)]
Status: TypeAlias = Annotated[int, count(200)]
Milliseconds: TypeAlias = Annotated[float, number(12.5, minimum=0)]
Rate: TypeAlias = Annotated[float, number(0.5, minimum=0, maximum=1)]
Account: TypeAlias = Annotated[str, text("eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb")]
Address: TypeAlias = Annotated[str, text("0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb")]
ProjectId: TypeAlias = Annotated[str, text("example-app")]
TypeId: TypeAlias = Annotated[str, text("price-alert")]
NextPage: TypeAlias = Annotated[str, text("7")]
Channel: TypeAlias = Annotated[str, one_of("webhook", "webhook-push", "fcm", "apns", "webpush", "log")]


if TYPE_CHECKING:
    from typing_extensions import TypedDict
else:

    class TypedDict:
        """A plain class until a schema is drawn: each TypedDict takes 0.1 ms of a start."""

        def __new__(cls, name: str, members: dict[str, Any]) -> type:
            return type(name, (cls,), {"__annotations__": members})

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            return handler.generate_schema(_typed_dict(cls))

    @cache
    def _typed_dict(shape: type) -> Any:
        make = import_module("typing_extensions").TypedDict
        members: dict[str, Any] = {}
        for base in reversed(shape.__mro__):
            members |= vars(base).get("__annotations__", {})
        made = make(shape.__name__, members)
        made.__module__, made.__doc__ = shape.__module__, shape.__doc__
        return made


class SuccessAnswer(TypedDict):
    """The request was carried out."""

    success: Literal[True]


Work: TypeAlias = Callable[[web.Request], Awaitable[object]]
"""Carries a request out. It returns the answer; None for a change that answers only its success.

Its docstring and its type are the route's description."""


def answering(work: Work) -> Handler:
    """The handler that sends the answer of `work`."""

    async def handle(request: web.Request) -> web.StreamResponse:
        made = await work(request)
        if isinstance(made, web.StreamResponse):
            return made
        return json_answer(b'{"success":true}' if made is None else orjson.dumps(made))

    return handle


def returned(work: Callable[..., Any], meaning: str) -> tuple[DescribedAnswer, ...]:
    """The answer of `work` as its type says. `meaning` is the answer's."""
    shape = work.__annotations__["return"]
    return (DescribedAnswer(200, meaning, SuccessAnswer if shape is None else shape),)


def done(meaning: str) -> tuple[DescribedAnswer, ...]:
    """The answers of a change that answers only its success."""
    return (DescribedAnswer(200, meaning, SuccessAnswer),)


def page_parameters(next_text: str = "`next` of the page before.", limit: int = 100) -> tuple[Parameter, ...]:
    """`after` and `limit` of a list that comes page by page."""
    schema = {"type": "integer", "minimum": 1, "maximum": 1000, "default": limit}
    return (Parameter("after", next_text), Parameter("limit", "How many at most.", schema, example="10"))
