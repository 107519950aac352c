"""The shapes of answers, and the description of a route beyond its row: summary, answers, problems, example.

An answer of the admin API is a TypedDict: the type checker holds what is sent against what is described, and
until somebody asks it is a class with annotations. A room's `description.py` holds one Operation for each
name of a row; these modules are imported when somebody asks for the description.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import orjson
from aiohttp import web
from pydantic import BaseModel, ConfigDict, WithJsonSchema

from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.values import dataclass
from bridge_server.web.answers import json_answer
from bridge_server.web.routes import Handler

__all__ = ["TypedDict"]

JSON = "application/json"
TEXT = "text/plain"
HTML = "text/html"
EVENTS = "text/event-stream"


ABSENT: Any = None
"""The default of a member that an answer may lack."""


def _without_defaults(schema: dict[str, Any]) -> None:
    for each in schema.get("properties", {}).values():
        each.pop("default", None)


class AnswerShape(BaseModel):
    """The shape of an answer, or of a part of one. Later versions may add members."""

    model_config = ConfigDict(defer_build=True, frozen=True, json_schema_extra=_without_defaults)


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
        """A TypedDict for the type checker; for pydantic one is made when a schema is drawn.

        Each costs a start 0.1 ms, and the operator's side has eighty.
        """

        def __new__(cls, name: str, members: dict[str, Any]) -> type:
            return type(name, (cls,), {"__annotations__": members})

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            return handler.generate_schema(_typed_dict(cls))

    @cache
    def _typed_dict(shape: type) -> Any:
        make = import_module("typing_extensions").TypedDict
        members = {name: each for base in reversed(shape.__mro__) for name, each in _own(base).items()}
        made = make(shape.__name__, members)
        made.__module__, made.__doc__ = shape.__module__, shape.__doc__
        return made

    def _own(shape: type) -> dict[str, Any]:
        return vars(shape).get("__annotations__", {})


class SuccessAnswer(TypedDict):
    """The request was carried out."""

    success: Literal[True]


@dataclass(frozen=True, slots=True)
class DescribedAnswer:
    """One answer: its status, its meaning in a sentence, and the shape of its body (None: no body)."""

    status: int
    meaning: str
    shape: Any = None
    media_type: str = JSON


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query or the header fields, or the meaning of one in the path."""

    name: str
    text: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    place: Literal["query", "header", "path"] = "query"
    example: str | None = None
    """Its value in the example; None leaves it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Everything about a route that its row does not say."""

    tag: str
    summary: str
    text: str
    answers: tuple[DescribedAnswer, ...]
    problems: tuple[type[BridgeError], ...] = ()
    """The failures of its own, without failures that follow from the row (token, limits, body)."""
    body: Any = None
    """The shape of the JSON that it reads; None if it reads none."""
    body_example: Any = None
    body_is_optional: bool = False
    parameters: tuple[Parameter, ...] = ()
    polls: bool = False
    """Whether a client may ask it to wait (`Prefer: wait=25`, `?wait=25`)."""
    needs_database: bool = True
    extensions: Mapping[str, Any] = field(default_factory=dict)
    """Members that begin with `x-`."""


def operation(tag: str, summary: str, description: str, *answers: DescribedAnswer, **more: Any) -> Operation:
    """A route described under a heading of the document: its `tag`."""
    return Operation(tag=tag, summary=summary, text=description, answers=answers, **more)


Work: TypeAlias = Callable[[web.Request], Awaitable[object]]
"""Carries a request out. It returns the answer; None for a change that answers only its success.

Its docstring and its type are the route's description.
"""


def answering(work: Work) -> Handler:
    """The handler that sends the answer of `work`."""

    async def handle(request: web.Request) -> web.StreamResponse:
        made = await work(request)
        if isinstance(made, web.StreamResponse):
            return made
        return json_answer(b'{"success":true}' if made is None else orjson.dumps(made))

    return handle


def drawn(work: Work, tag: str, summary: str, meaning: str, more: Mapping[str, Any]) -> Operation:
    """The operation that a function carries out: its docstring is the text, its type the shape of the answer.

    `meaning` is the answer's, and `more` has further fields of Operation.
    """
    shape = work.__annotations__["return"]
    answer = DescribedAnswer(200, meaning, SuccessAnswer if shape is None else shape)
    return Operation(
        tag=tag,
        summary=summary,
        text=" ".join((work.__doc__ or "").split()),
        **{"answers": (answer,), **more},
    )


def done(meaning: str = "It is done.") -> tuple[DescribedAnswer, ...]:
    """The answers of a change that answers only its success."""
    return (DescribedAnswer(200, meaning, SuccessAnswer),)


def page_parameters(next_text: str = "`next` of the page before.", limit: int = 100) -> tuple[Parameter, ...]:
    """`after` and `limit` of a list that comes page by page."""
    schema = {"type": "integer", "minimum": 1, "maximum": 1000, "default": limit}
    return (
        Parameter("after", next_text),
        Parameter("limit", "How many at most.", schema, example="10"),
    )
