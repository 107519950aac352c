"""The OpenAPI document of a server, made from its rows."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import TypeAdapter

from bridge_server.kernel import errors
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.version import NAME, REPOSITORY, VERSION
from bridge_server.web.connection import TYPE_PREFIX
from bridge_server.web.problems import REFUSALS, status_of_kind
from bridge_server.web.routes import JSON, About, DescribedAnswer, Parameter, Route
from bridge_server.web.shapes import Account, Count, Moment, ProjectId, TypedDict, TypeId, text

OPENAPI_VERSION = "3.1.0"
_REFERENCE = "#/components/schemas/{model}"

_SCHEME_OF = {
    "backend": "projectSecret",
    "app": "inboxToken",
    "operator": "adminToken",
    "rpc": "rpcToken",
    "test": "testToken",
}
"""The tokens by the callers of rows that ask for one."""


class Schemas:
    """The schemas of these shapes, and of all that they are made of."""

    def __init__(self, shapes: Iterable[Any]) -> None:
        adapters = {repr(shape): TypeAdapter(shape) for shape in shapes}
        inputs = [(name, "validation", adapter) for name, adapter in adapters.items()]
        found, rest = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)  # type: ignore[arg-type]
        definitions = sorted(rest.get("$defs", {}).items())
        self._found: dict[str, dict[str, Any]] = {name: _tidy(schema) for (name, _), schema in found.items()}
        self.components: dict[str, Any] = {shape_name(name): _tidy(schema) for name, schema in definitions}

    def of(self, shape: Any) -> dict[str, Any]:
        """The schema of one of the shapes: a reference, if it has a name."""
        return self._found[repr(shape)]

    def content(self, shape: Any) -> dict[str, Any]:
        """The schema of one of the shapes, and an example."""
        schema = self.of(shape)
        return {"schema": schema, "example": example_of(schema, self.components)}


def openapi_document(rows: Sequence[Route]) -> dict[str, Any]:
    """The document of these rows, as JSON values."""
    pairs = [(row, row.about) for row in rows if row.about is not None]
    shapes = [shape for _, about in pairs for shape in (about.body, *(each.shape for each in about.answers))]
    schemas = Schemas([*(shape for shape in shapes if shape is not None), *SHAPES])
    paths: dict[str, Any] = {}
    for row, about in pairs:
        paths.setdefault(spelled(row.path), {})[row.method.lower()] = _operation(row, about, schemas)
    kinds = {code: kind for pair in pairs for code, kind in problems_of(*pair).items()}
    problem_schemas, responses = problem_components(kinds)
    used_tags = {about.tag for _, about in pairs}
    used_schemes = {scheme for row, _ in pairs for scheme in _schemes(row)}
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": NAME,
            "version": VERSION,
            "description": INTRODUCTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "externalDocs": {"description": "The source, with all documentation.", "url": REPOSITORY},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in used_tags],
        "paths": paths,
        "webhooks": {name: {"post": _message(name, *each, schemas)} for name, each in _WEBHOOKS.items()},
        "components": {
            "schemas": {**schemas.components, **problem_schemas},
            "responses": responses,
            "headers": HEADERS,
            "securitySchemes": {
                name: {"type": "http", "scheme": "bearer", "description": text}
                for name, text in TOKENS.items()
                if name in used_schemes
            },
        },
    }


def _operation(row: Route, about: About, schemas: Schemas) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "operationId": row.name, "tags": [about.tag], "summary": about.summary, "description": about.text,
    }  # fmt: skip
    others = [each for each in about.parameters if each.place != "path"]
    waits = WAIT_PARAMETERS if about.polls else ()
    if parameters := [*path_parameters(row, about), *map(other_parameter, (*others, *waits))]:
        fields["parameters"] = parameters
    if about.body is not None:
        content = {"schema": schemas.of(about.body), "example": about.body_example}
        fields["requestBody"] = {"required": not about.body_is_optional, "content": {JSON: content}}
    answers = {str(answer.status): _answer(answer, row, about, schemas) for answer in about.answers}
    fields["responses"] = answers | problem_responses(problems_of(row, about))
    fields["security"] = [{name: []} for name in _schemes(row)]
    return fields | dict(about.extensions)


def _answer(answer: DescribedAnswer, row: Route, about: About, schemas: Schemas) -> dict[str, Any]:
    names = ["X-Request-ID"]
    if row.limits or row.caller_limits:
        names += ("RateLimit", "RateLimit-Policy")
    if about.polls:
        names.append("Preference-Applied")
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    fields: dict[str, Any] = {"description": answer.meaning, "headers": headers}
    if answer.shape is not None:
        fields["content"] = {answer.media_type: schemas.content(answer.shape)}
    return fields


def _schemes(row: Route) -> tuple[str, ...]:
    return (_SCHEME_OF.get(row.who, "metricsToken"),) if row.access.takes_token else ()


# Paths of rows as the document spells them, with their parameters.

_UUID = "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f"
_CALL = "0192f7c8-8a10-7c4e-9d3b-51c2a7f6b0d8"
_ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"

_PARAMETER = re.compile(r"\{(\w+)(?::((?:[^{}]|\{[^{}]*\})*))?\}")

_MEANINGS: Mapping[str, tuple[str, str]] = {
    "session_id": ("The id of a session, from `POST /session/new`.", _UUID),
    "call_id": ("The id of a call, from `POST /session/{session_id}/call/new`.", _CALL),
    "project_id": ("The id of a project.", "example-app"),
    "type_id": ("The id of a notification type.", "price-alert"),
    "account": ("An account id (CAIP-10).", _ACCOUNT),
    "device_id": ("The id of a device.", "0192f7c8-9b3e-7a51-8c2d-6e4f1a2b3c4d"),
    "handle": ("The handle of a session, from the list of sessions.", "s4Jd0cRk"),
    "call": ("The handle of a call, from the record of requests.", "c9Xw2LmQ"),
}
"""The meaning of each parameter in a path, with an example. A row may describe it otherwise."""


def spelled(path: str) -> str:
    """The path with its parameters' names alone."""
    return _PARAMETER.sub(lambda found: f"{{{found[1]}}}", path)


def path_parameters(row: Route, about: About) -> list[dict[str, Any]]:
    """The parameters in the row's path."""
    own = {each.name: (each.text, each.example) for each in about.parameters if each.place == "path"}
    found = []
    for name, pattern in _PARAMETER.findall(row.path):
        meaning, example = own.get(name) or _MEANINGS[name]
        schema = {"type": "string", **({"pattern": f"^{pattern}$"} if pattern else {})}
        fields = {"name": name, "in": "path", "required": True, "description": meaning}
        found.append({**fields, "schema": schema, "example": example})
    return found


def other_parameter(parameter: Parameter) -> dict[str, Any]:
    """A parameter of the query, or a header field."""
    fields: dict[str, Any] = {
        "name": parameter.name, "in": parameter.place, "description": parameter.text,
        "schema": dict(parameter.schema),
    }  # fmt: skip
    if parameter.example is not None:
        is_number = parameter.schema.get("type") == "integer"
        fields["example"] = int(parameter.example) if is_number else parameter.example
    return fields


def shape_name(name: str) -> str:
    """The name of a schema. Shapes of requests are classes that end in `Shape`, of answers in `Answer`."""
    return f"{name.removesuffix('Shape')}Input" if name.endswith("Shape") else name.removesuffix("Answer")


def example_of(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    """A value of the schema, made of the examples in it."""
    if "$ref" in schema:
        return example_of(components[schema["$ref"].rpartition("/")[2]], components)
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    if "const" in schema:
        return schema["const"]
    for choices in (schema.get("anyOf"), schema.get("oneOf")):
        if choices:
            return example_of(choices[0], components)
    return _of_type(schema, components)


_EXAMPLES = {"boolean": True, "integer": 0, "number": 0, "null": None}


def _of_type(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: example_of(each, components) for name, each in properties.items()}
    if kind == "array":
        items = schema.get("items")
        return [] if not items or schema.get("maxItems") == 0 else [example_of(items, components)]
    return _EXAMPLES.get(str(kind), "text")


def _tidy(schema: Any) -> Any:
    """The schema without titles made of names and without defaults of null, its references by their names."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for name, value in schema.items():
        if (name == "title" and isinstance(value, str)) or (name == "default" and value is None):
            continue
        if name == "$ref":
            prefix, _, target = value.rpartition("/")
            kept[name] = f"{prefix}/{shape_name(target)}"
        elif name in ("properties", "$defs"):
            kept[name] = {key: _tidy(each) for key, each in value.items()}
        elif name in ("examples", "enum", "const", "default"):
            kept[name] = value
        else:
            kept[name] = _tidy(value)
    return kept


# Problems in the document: a schema and a response for each code.

_PROBLEM_JSON = "application/problem+json"

_FAULTS = {
    "type": "array",
    "description": "Every fault of the body or the query at once, each with its place.",
    "items": {
        "type": "object",
        "properties": {
            "pointer": {
                "type": "string",
                "description": "A JSON Pointer (RFC 6901) as a URI fragment.",
                "examples": ["#/encryptionPayload"],
            },
            "detail": {"type": "string", "examples": ["must be a string or an object"]},
        },
        "required": ["pointer", "detail"],
    },
}
_EVERYWHERE = {
    **{code: (status, f"{title}. No route was looked for.") for status, (code, title) in REFUSALS.items()},
    "method-not-allowed": (405, "The path exists, but not for this method: see the header field Allow."),
    "server-error": (500, "The server failed, which is a bug. Its log has the reason beside the request id."),
}
"""Problems that any request may get."""


def problems_of(row: Route, about: About) -> dict[str, type[BridgeError]]:
    """The failures that a request of the row may have, by code: the row's, and the operation's own."""
    has_query = any(parameter.place == "query" for parameter in about.parameters)
    has_input = about.body is not None or about.polls or has_query or row.body_limit_bytes
    may_fail: Sequence[tuple[type[BridgeError], object]] = (
        (errors.ForbiddenError, row.access.guard is not None),
        (errors.NotAuthenticatedError, row.access.takes_token),
        (errors.NotFoundError, "{" in row.path),
        (errors.UnsupportedMediaError, about.body is not None),
        (errors.InvalidInputError, has_input),
        (errors.TooLargeError, row.body_limit_bytes),
        (errors.TooSlowError, row.body_limit_bytes),
        (errors.LimitError, row.limits or row.caller_limits),
        (errors.UnavailableError, about.needs_database),
        (errors.DatabaseFullError, about.needs_database and row.method != "GET"),
    )
    kinds = [*about.problems, *(kind for kind, applies in may_fail if applies)]
    return {kind.code: kind for kind in kinds}


def problem_responses(kinds: Mapping[str, type[BridgeError]]) -> dict[str, Any]:
    """The responses of these failures by status: a reference, or all that the codes of a status may mean."""
    codes: dict[int, list[str]] = {}
    for code, kind in kinds.items():
        codes.setdefault(status_of_kind(kind), []).append(code)
    return {str(status): _response(status, each, kinds) for status, each in sorted(codes.items())}


def _response(status: int, codes: Sequence[str], kinds: Mapping[str, type[BridgeError]]) -> dict[str, Any]:
    if len(codes) == 1:
        return {"$ref": f"#/components/responses/{codes[0]}"}
    references = {f"{TYPE_PREFIX}{code}": f"#/components/schemas/{schema_name(code)}" for code in codes}
    schema = {
        "oneOf": [{"$ref": each} for each in references.values()],
        "discriminator": {"propertyName": "type", "mapping": references},
    }
    return {
        "description": " ".join(f"`{code}`: {_meaning(kinds[code])}" for code in codes),
        "headers": _headers(status),
        "content": {_PROBLEM_JSON: {"schema": schema}},
    }


def problem_components(kinds: Mapping[str, type[BridgeError]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schemas and the responses of these failures, and of failures that any request may have."""
    meanings = {code: (status_of_kind(kind), _meaning(kind)) for code, kind in kinds.items()} | _EVERYWHERE
    schemas: dict[str, Any] = {}
    responses: dict[str, Any] = {}
    for code, (status, meaning) in sorted(meanings.items()):
        name = schema_name(code)
        schemas[name] = _schema(code, status, meaning)
        responses[code] = {
            "description": meaning,
            "headers": _headers(status),
            "content": {_PROBLEM_JSON: {"schema": {"$ref": f"#/components/schemas/{name}"}}},
        }
    return schemas, responses


def schema_name(code: str) -> str:
    """The name of the schema of a problem: `SessionNotFoundProblem` of `session-not-found`."""
    return "".join(word.capitalize() for word in code.split("-")) + "Problem"


def _meaning(kind: type[BridgeError]) -> str:
    """The first paragraph of the docstring of the class that has named the code."""
    named = next(each for each in kind.__mro__ if "code" in vars(each))
    return " ".join((named.__doc__ or "").split("\n\n")[0].split())


def _schema(code: str, status: int, meaning: str) -> dict[str, Any]:
    properties = {
        "type": {"type": "string", "const": f"{TYPE_PREFIX}{code}"},
        "title": {"type": "string", "description": "The kind of problem in words, always the same."},
        "status": {"type": "integer", "const": status},
        "detail": {"type": "string", "description": "What is wrong here, and what can be done."},
        "instance": {
            "type": "string",
            "description": "The request id, as in `X-Request-ID` and the server's log.",
            "examples": [_UUID],
        },
    }
    if code == errors.InvalidInputError.code:
        properties["errors"] = _FAULTS
    required = ["type", "title", "status", "detail", "instance"]
    return {"type": "object", "description": meaning, "properties": properties, "required": required}


def _headers(status: int) -> dict[str, Any]:
    names = {
        401: ["WWW-Authenticate"],
        405: ["Allow"],
        429: ["Retry-After", "RateLimit", "RateLimit-Policy"],
        503: ["Retry-After"],
    }.get(status, [])
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-ID", "Link", *names)}


# The messages that this server sends to webhooks, described as the answers are.


class NewCallMessage(TypedDict):
    """A session has a new call."""

    sessionId: Annotated[str, text(_UUID)]  # noqa: N815
    callId: Annotated[str, text("0192f7c8-8a10-7c11-9d7e-5b0a6f2c1e3d")]  # noqa: N815
    pushType: Annotated[str, text("fcm")]  # noqa: N815
    pushToken: Annotated[str, text("d7Zt3k")]  # noqa: N815
    dappName: Annotated[str, text("Example Shop")]  # noqa: N815


class TopicMessage(TypedDict):
    """A topic has a new call."""

    topic: Annotated[str, text(_UUID)]


class SubscriptionMessage(TypedDict):
    """A subscription has changed. `number` increases with each change."""

    event: Literal["subscribed", "updated", "unsubscribed"]
    number: Count
    project_id: ProjectId
    account: Account
    notification_types: list[TypeId]
    at: Moment


class RequestNotice(TypedDict):
    """A registered wallet has a new request."""

    event: Literal["request"]
    title: Annotated[str, text("Example Shop")]
    body: Annotated[str, text("New request from Example Shop")]
    topic: Annotated[str, text(_UUID)]
    bridge: Annotated[str, text("https://bridge.example.org")]


class NotificationNotice(TypedDict):
    """An account has a new notification."""

    event: Literal["notification"]
    id: Annotated[str, text("1")]
    project_id: ProjectId
    project_name: Annotated[str, text("Example App")]
    account: Account
    type: TypeId
    title: Annotated[str, text("ETH is up")]
    body: Annotated[str, text("1 ETH costs 4,000 USD.")]
    url: Annotated[str, text("https://app.example.org/eth")] | None
    sent_at: Moment


class WebhookTestMessage(TypedDict):
    """A test, which a receiver has nothing to do for."""

    event: Literal["test"]
    at: Moment


_WEBHOOKS: Mapping[str, tuple[str, str, str, Any]] = {
    "new-call": (
        "Bridge", "A new call, to the wallet's push webhook",
        "Sent to the `push.webhook` of the session.", NewCallMessage,
    ),
    "new-call-of-topic": (
        "Bridge", "A new call, to the webhooks of its topic",
        "Sent to each webhook that was registered with `POST /subscribe`.", TopicMessage,
    ),
    "subscription-changed": (
        "Notifications", "A changed subscription, to the project's webhook",
        "Sent to the webhook that the operator has set for the project, signed with its own secret. Messages "
        "may arrive out of order.", SubscriptionMessage,
    ),
    "request-push": (
        "Push", "A new request, to a wallet's device",
        "Sent to the `token` of a registration with the type `webhook` (`POST /new`), in the client's "
        "language.", RequestNotice,
    ),
    "notification-push": (
        "Inbox", "A notification, to an account's device",
        "Sent to the `address` of a device with the channel `webhook` (`POST /inbox/devices`).",
        NotificationNotice,
    ),
    "webhook-test": (
        "Outbox", "A test, to the URL that an operator names",
        "Sent once by `POST /admin/webhooks/test` and `bridge-server webhook test`.", WebhookTestMessage,
    ),
}  # fmt: skip
"""Each message: its tag, its summary, its description and its shape."""
SHAPES = tuple(shape for _, _, _, shape in _WEBHOOKS.values())
"""The shapes of all messages."""

_HEADERS = {
    "webhook-id": "The id of the message, the same in each attempt, so that a receiver can drop repeats.",
    "webhook-timestamp": "When this attempt was sent, in seconds since the Unix epoch.",
    "webhook-signature": "Signatures by Standard Webhooks, separated by spaces; only where a secret is set.",
}
_OPTIONAL_HEADER = "webhook-signature"
_RESPONSES = {
    "2XX": {"description": "The message has arrived."},
    "410": {
        "description": "The receiver wants no more messages. Its registration is removed, unless it is the "
        "webhook of a project."
    },
    "default": {
        "description": "It has not arrived, and is sent again, ten times over about 24 hours. A test is not."
    },
}


def _message(name: str, tag: str, summary: str, text: str, shape: Any, schemas: Schemas) -> dict[str, Any]:
    headers = []
    for header, meaning in _HEADERS.items():
        fields = {"name": header, "in": "header", "required": header != _OPTIONAL_HEADER}
        headers.append(fields | {"description": meaning, "schema": {"type": "string"}})
    return {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "description": text,
        "parameters": headers,
        "requestBody": {"required": True, "content": {JSON: schemas.content(shape)}},
        "responses": _RESPONSES,
        "security": [],
    }


# Texts of the document that belong to no room: introduction, tags, security schemes, header fields.

INTRODUCTION = """\
One server with four interfaces on one port: a relay bridge for dapps and wallets, a notification service for
apps and their accounts, a push server, and a wallet that answers JSON-RPC.

**Errors** are problems (RFC 9457, `application/problem+json`); `type` ends in a code that never changes. Any
request may also get `bad-request` (400), `target-too-long` (414) and `header-field-too-long` (431) before a
route is looked for, `not-found` (404) for an unknown path, `method-not-allowed` (405), and `server-error`
(500), which is a bug. The wallet answers JSON-RPC errors with status 200 instead.

**Rate limits** are token buckets. Answers of limited routes have the header fields `RateLimit` and
`RateLimit-Policy`, a 429 has `Retry-After`.

**Later versions** may add members to answers, routes and codes of problems. Unknown members of a request are
ignored unless its description says otherwise.
"""

TAGS = {
    "Bridge": "Sessions and calls between a dapp and a wallet. An id is a capability: there is no other "
    "authentication. Payloads are encrypted by the clients and opaque to the server. Web pages of any origin "
    "may call these routes.",
    "Bridge, generation 0.7": "The same sessions and calls for clients of generation 0.7, under their own "
    "path and in their own envelope.",
    "Sockets": "WebSockets for clients of generations 1.x and 2.x.",
    "Notifications": "For an app's backend, with a secret of its project. No web page may call these routes.",
    "Inbox": "For an account, which signs in with Ethereum (EIP-4361). Web pages of configured origins may "
    "call these routes.",
    "Push": "Registration of a wallet's devices, and pushes to them. Web pages of any origin may call these "
    "routes.",
    "Wallet": "Ethereum JSON-RPC of the accounts whose keys the server has.",
    "Projects": "For the operator, with the admin token: projects, their secrets, types, limits and "
    "subscribers.",
    "Accounts": "For the operator: what is known of an account.",
    "Wallet administration": "For the operator: accounts, approvals, transactions and signatures.",
    "Outbox": "For the operator: messages for webhooks and devices.",
    "Observation": "For the operator: requests, clients, sessions, figures and settings.",
    "Operation": "Health, metrics and this description.",
    "Test mode": "Control routes of a server that runs for tests (`serve --test`). They exist on no other.",
}

TOKENS = {
    "projectSecret": "A secret of the project in the path (`bsk_...`). It belongs in the app's backend.",
    "inboxToken": "The token of `POST /inbox/login`, for which an account signs in with Ethereum.",
    "adminToken": "The setting `admin_token`. The Host field must name this machine, the address that the "
    "request came to, `public_url` or one of `rpc_hosts`.",
    "rpcToken": "The setting `rpc_token`. Without that setting only programs of the same machine may call, "
    "and need no token.",
    "metricsToken": "The setting `metrics_token`.",
    "testToken": "`test_token` of the ready file.",
}
"""The bearer tokens by the names of their schemes."""


def _header(text: str, *, is_required: bool = False, **schema: Any) -> dict[str, Any]:
    required = {"required": True} if is_required else {}
    return {"description": text, **required, "schema": {"type": "string", **schema}}


HEADERS: dict[str, Any] = {
    "X-Request-ID": _header("The id of the request: that of the request's own `X-Request-ID`, or a new one."),
    "RateLimit": _header(
        "What is left of each limit, and in how many seconds it is whole again: "
        '`"requests";r=99;t=1`. Addresses that are exempt from limits get none.'
    ),
    "RateLimit-Policy": _header(
        'Each limit: how much at once, and in how many seconds: `"requests";q=100;w=10`.'
    ),
    "Link": _header(
        'The page about the code of the problem: `</docs/errors/CODE>; rel="help"`.', is_required=True
    ),
    "Retry-After": _header(
        "After how many seconds another attempt may succeed.", is_required=True, type="integer", minimum=0
    ),
    "Preference-Applied": _header(
        "`wait=N`, if the request had `Prefer: wait`: the seconds that it might have waited."
    ),
    "WWW-Authenticate": _header("`Bearer`.", is_required=True, const="Bearer"),
    "Allow": _header("The methods of the path.", is_required=True),
}

WAIT_PARAMETERS = (
    Parameter(
        "Prefer",
        "`wait=N` (RFC 7240) has the server wait up to N seconds, 25 at most, for something to answer.",
        {"type": "string", "examples": ["wait=25"]},
        "header",
    ),
    Parameter(
        "wait", "As `Prefer: wait=N`, for clients that cannot send it.", {"type": "integer", "minimum": 0}
    ),
)
